package dev.langchain4j.data.message;
public class ChatMessageDeserializer { public static java.util.List<ChatMessage> messagesFromJson(String json) { return null; } }
