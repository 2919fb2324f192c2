// A turn of a chat with the types generated from docs/openapi.json. It is type-checked, not run.
import createClient from "openapi-fetch";

import type { components, paths } from "./schema";

type Schemas = components["schemas"];

/** What any call gives that went wrong. */
class ChatMemoryError extends Error {
  constructor(readonly problem: Schemas["Problem"]) {
    super(problem.detail);
  }
}

function need<T>(answer: { data?: T; error?: Schemas["Problem"] }): T {
  if (answer.data === undefined) {
    throw answer.error ? new ChatMemoryError(answer.error) : new Error("The answer is empty.");
  }
  return answer.data;
}

function textOf(message: Schemas["ChatMessage"]): string {
  switch (message.type) {
    case "SYSTEM":
      return message.text;
    case "USER":
      return message.contents.map((content) => (content.type === "TEXT" ? content.text : `[${content.type}]`)).join("");
    case "AI":
      return message.text ?? (message.toolExecutionRequests ?? []).map((call) => call.name ?? "").join(", ");
    case "TOOL_EXECUTION_RESULT":
      return (message.contents ?? []).map((content) => content.type).join(", ");
    case "CUSTOM":
      return JSON.stringify(message.attributes);
    default:
      return message satisfies never;
  }
}

export async function chat(baseUrl: string, csrfToken: string, question: string): Promise<string[]> {
  const api = createClient<paths>({ baseUrl, headers: { "X-CSRFToken": csrfToken } });

  const conversation = need(
    await api.POST("/conversations/", {
      params: { header: { "Idempotency-Key": crypto.randomUUID() } },
      body: { title: "Support", window: "messages", limit: 20, metadata: { topic: "cats" } },
    }),
  );
  const path = { conversation_id: conversation.id };

  const said: Schemas["UserMessage"] = { type: "USER", contents: [{ type: "TEXT", text: question }] };
  const addition = need(
    await api.POST("/conversations/{conversation_id}/messages/", {
      params: { path, header: { "Idempotency-Key": crypto.randomUUID() } },
      body: said,
    }),
  );
  const forgotten = addition.evicted.map((item) => `${item.position} left: ${item.reason ?? "still there"}`);

  // What the model is to get, and its answer in the same format.
  const window = need(
    await api.GET("/conversations/{conversation_id}/memory/", { params: { path, query: { format: "openai" } } }),
  );
  const got = Array.isArray(window.messages) ? window.messages : []; // Anthropic's and Gemini's would be an object
  await api.POST("/conversations/{conversation_id}/messages/", {
    params: { path, query: { format: "openai" } },
    body: { messages: [{ role: "assistant", content: `I got ${got.length} messages.` }] },
  });

  const shown: string[] = [];
  let cursor: string | null = null;
  do {
    const page: Schemas["HistoryPage"] = need(
      await api.GET("/conversations/{conversation_id}/messages/", {
        params: {
          path,
          query: { ordering: "-position", page_size: 50, type: ["USER", "AI"], ...(cursor ? { cursor } : {}) },
        },
      }),
    );
    for (const item of page.results) {
      const said = item.message === null ? item.text : "role" in item.message ? item.message.role : textOf(item.message);
      shown.push(`${item.position} ${said}`);
    }
    cursor = page.next && new URL(page.next).searchParams.get("cursor");
  } while (cursor);

  const trial = need(
    await api.POST("/conversations/{conversation_id}/memory/preview/", { params: { path }, body: { limit: 1 } }),
  );
  const wouldGo = trial.evicted.map((item) => `${item.text} would go: ${item.reason}`);

  const memory = await api.GET("/conversations/{conversation_id}/memory/", { params: { path } });
  const etag = memory.response.headers.get("ETag") ?? `"${need(memory).version}"`;
  const rewritten = await api.PUT("/conversations/{conversation_id}/memory/", {
    params: { path, header: { "If-Match": etag } },
    body: { messages: [{ type: "SYSTEM", text: "Be brief." }, said] },
  });
  if (rewritten.error) {
    const problem: Schemas["Problem"] = rewritten.error;
    const places = (problem.errors ?? []).map((error) => `${error.place}: ${error.detail}`);
    return problem.status === 412 ? [`Somebody was faster: version ${problem.version}`] : places;
  }

  const compaction = need(await api.GET("/conversations/{conversation_id}/compaction/", { params: { path } }));
  if (compaction.plan !== null) {
    const summary = await api.POST("/conversations/{conversation_id}/compaction/", {
      params: { path, header: { "Idempotency-Key": crypto.randomUUID(), "If-Match": `"${compaction.version}"` } },
      body: { through: compaction.plan.covers_to, text: "We talked." },
    });
    if (summary.error?.type === "urn:chatmemory:problem:already-summarized") return [summary.error.detail];
  }
  const made = await api.POST("/conversations/{conversation_id}/compaction/", { params: { path }, body: { keep: 60 } });
  const later = made.error?.retry_at ?? "at once";
  const outcome: "summarized" | "nothing_to_do" | "under_way" = need(made).outcome;

  const store = { memory_id: conversation.memory_id };
  const stored = need(await api.GET("/stores/{memory_id}/", { params: { path: store } }));
  await api.PUT("/stores/{memory_id}/", { params: { path: store }, body: [...stored, said] });
  await api.DELETE("/stores/{memory_id}/", { params: { path: store } });
  return [...forgotten, ...shown, ...wouldGo, ...stored.map(textOf), rewritten.data.window, outcome, later];
}
