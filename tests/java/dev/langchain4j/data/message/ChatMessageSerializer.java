package dev.langchain4j.data.message;
public class ChatMessageSerializer { public static String messagesToJson(java.util.List<ChatMessage> messages) { return null; } }
