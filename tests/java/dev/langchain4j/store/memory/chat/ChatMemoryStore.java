package dev.langchain4j.store.memory.chat;

import dev.langchain4j.data.message.ChatMessage;
import java.util.List;
import java.util.concurrent.CompletableFuture;

/** As in LangChain4j 1.20, whose AI services call the async methods when they return a CompletableFuture or Publisher. */
public interface ChatMemoryStore {
    List<ChatMessage> getMessages(Object memoryId);

    void updateMessages(Object memoryId, List<ChatMessage> messages);

    void deleteMessages(Object memoryId);

    default CompletableFuture<List<ChatMessage>> getMessagesAsync(Object memoryId) {
        return CompletableFuture.failedFuture(new UnsupportedOperationException("getMessagesAsync"));
    }

    default CompletableFuture<Void> updateMessagesAsync(Object memoryId, List<ChatMessage> messages) {
        return CompletableFuture.failedFuture(new UnsupportedOperationException("updateMessagesAsync"));
    }

    default CompletableFuture<Void> deleteMessagesAsync(Object memoryId) {
        return CompletableFuture.failedFuture(new UnsupportedOperationException("deleteMessagesAsync"));
    }
}
