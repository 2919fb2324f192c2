// The REST API, and the demo's own stream of answers.

const { api, home } = document.body.dataset;

/** An error that the server reported; `status` is 0 if it sent no answer. Without `again` a second try would fail, too. */
export class ApiError extends Error {
  constructor(status, detail, again = true) {
    super(detail);
    this.status = status;
    this.again = again;
  }
}

/** Send a request and return the parsed answer. `path` is a whole address or one below `conversations/`. */
export async function call(method, path, { body, key, signal } = {}) {
  const response = await send(method, new URL(path, new URL(api, location.href)), { body, key, signal });
  return response.status === 204 ? null : response.json();
}

/** Return every result of a list, from all of its pages. */
export async function all(path) {
  const results = [];
  for (let next = path; next; ) {
    const page = await call("GET", next);
    results.push(...page.results);
    next = page.next;
  }
  return results;
}

/** Make the model answer, and yield the events of the stream. */
export async function* replyEvents(conversationId, signal) {
  const response = await send("POST", replyAddress(conversationId), { signal });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read().catch((error) => {
      throw error.name === "AbortError" ? error : new ApiError(0, "The connection to the demo broke off.");
    });
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) yield JSON.parse(line);
  }
}

/** Make the model stop: the server may not notice that nobody reads its stream any more. */
export async function stopReply(conversationId) {
  await send("DELETE", replyAddress(conversationId), {});
}

function replyAddress(conversationId) {
  return new URL(`${home}chat/${conversationId}/reply/`, location.href);
}

async function send(method, address, { body, key, signal }) {
  const headers = { Accept: "application/json" };
  if (method !== "GET") headers["X-CSRFToken"] = csrfToken();
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (key) headers["Idempotency-Key"] = key;
  const sent = body === undefined ? undefined : JSON.stringify(body);
  let response;
  try {
    // Otherwise browsers answer from their cache when somebody comes back to the page.
    response = await fetch(address, { method, headers, signal, body: sent, cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "The demo does not answer. Is it still running?");
  }
  if (!response.ok) throw new ApiError(response.status, await detailOf(response));
  return response;
}

/** Return the current token: signing in changes it, perhaps in another tab. */
function csrfToken() {
  return /(?:^|; )csrftoken=([^;]*)/.exec(document.cookie)?.[1] ?? "";
}

async function detailOf(response) {
  try {
    return (await response.json()).detail;
  } catch {
    return `The demo answered ${response.status}.`;
  }
}
