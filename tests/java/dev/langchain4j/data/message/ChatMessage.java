package dev.langchain4j.data.message;

/** A message, of which only the JSON is known. */
public interface ChatMessage {
    record Json(String text) implements ChatMessage {}
}
