import static dev.langchain4j.data.message.ChatMessageDeserializer.messagesFromJson;
import static dev.langchain4j.data.message.ChatMessageSerializer.messagesToJson;
import static java.nio.charset.StandardCharsets.UTF_8;

import dev.langchain4j.data.message.ChatMessage;
import dev.langchain4j.store.memory.chat.ChatMemoryStore;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;

/**
 * A program that keeps its memory in an HttpChatMemoryStore.
 *
 * <p>Each line that it reads is one step, with tabs between a verb, a memory ID and a JSON array of messages. Each line
 * that it writes is the answer: the messages of the memory, "done", or the exception.
 */
public class Program {
    public static void main(String[] arguments) throws Exception {
        ChatMemoryStore store = new HttpChatMemoryStore(arguments[0], arguments[1]);
        PrintStream answers = new PrintStream(System.out, true, UTF_8);
        BufferedReader steps = new BufferedReader(new InputStreamReader(System.in, UTF_8));
        for (String line = steps.readLine(); line != null; line = steps.readLine()) {
            String[] step = line.split("\t", -1);
            String answer;
            try {
                answer = arguments[2].equals("async")
                    ? takeAsync(store, step[0], step[1], messagesFromJson(step[2])).get()
                    : take(store, step[0], step[1], messagesFromJson(step[2]));
            } catch (ExecutionException failed) {
                answer = failed.getCause().toString();
            } catch (RuntimeException failed) {
                answer = failed.toString();
            }
            answers.println(answer);
        }
    }

    private static String take(ChatMemoryStore store, String verb, String id, List<ChatMessage> messages) {
        switch (verb) {
            case "get":
                return messagesToJson(store.getMessages(id));
            case "add": // as LangChain4j's memories do
                List<ChatMessage> all = new ArrayList<>(store.getMessages(id));
                all.addAll(messages);
                store.updateMessages(id, all);
                return "done";
            case "set":
                store.updateMessages(id, messages);
                return "done";
            default:
                store.deleteMessages(id);
                return "done";
        }
    }

    private static CompletableFuture<String> takeAsync(
            ChatMemoryStore store, String verb, String id, List<ChatMessage> messages) {
        switch (verb) {
            case "get":
                return store.getMessagesAsync(id).thenApply(all -> messagesToJson(all));
            case "add":
                return store.getMessagesAsync(id).thenCompose(stored -> {
                    List<ChatMessage> all = new ArrayList<>(stored);
                    all.addAll(messages);
                    return store.updateMessagesAsync(id, all);
                }).thenApply(nothing -> "done");
            case "set":
                return store.updateMessagesAsync(id, messages).thenApply(nothing -> "done");
            default:
                return store.deleteMessagesAsync(id).thenApply(nothing -> "done");
        }
    }
}
