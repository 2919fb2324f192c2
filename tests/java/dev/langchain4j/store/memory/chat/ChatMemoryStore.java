package dev.langchain4j.store.memory.chat;
public interface ChatMemoryStore { java.util.List<dev.langchain4j.data.message.ChatMessage> getMessages(Object memoryId); void updateMessages(Object memoryId, java.util.List<dev.langchain4j.data.message.ChatMessage> messages); void deleteMessages(Object memoryId); }
