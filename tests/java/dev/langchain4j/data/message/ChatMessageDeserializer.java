package dev.langchain4j.data.message;

import java.util.ArrayList;
import java.util.List;

public class ChatMessageDeserializer {
    /** Reads the elements of a JSON array of objects, and looks no further into them. */
    public static List<ChatMessage> messagesFromJson(String json) {
        List<ChatMessage> messages = new ArrayList<>();
        int depth = 0;
        int start = 0;
        boolean quoted = false;
        for (int at = 0; at < json.length(); at++) {
            char here = json.charAt(at);
            if (quoted) {
                if (here == '\\') {
                    at++;
                } else if (here == '"') {
                    quoted = false;
                }
            } else if (here == '"') {
                quoted = true;
            } else if (here == '{' && depth++ == 0) {
                start = at;
            } else if (here == '}' && --depth == 0) {
                messages.add(new ChatMessage.Json(json.substring(start, at + 1)));
            }
        }
        return messages;
    }
}
