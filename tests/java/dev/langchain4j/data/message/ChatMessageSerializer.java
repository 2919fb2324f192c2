package dev.langchain4j.data.message;

import static java.util.stream.Collectors.joining;

import java.util.List;

public class ChatMessageSerializer {
    public static String messagesToJson(List<ChatMessage> messages) {
        return messages.stream().map(message -> ((ChatMessage.Json) message).text()).collect(joining(",", "[", "]"));
    }
}
