// The REST API as seen from one conversation.

// Milliseconds without a byte after which a connection is dead: a stream that is alive sends a comment each 15 seconds.
const SILENCE = 45_000;

/** An error that the server reported; `status` is 0 if it sent no answer. */
export class ApiError extends Error {
  constructor(status, detail, { type = "", retryAfter = null } = {}) {
    super(detail);
    this.status = status;
    this.type = type;
    this.isBusy = status === 409 && retryAfter !== null;
    this.canWait = retryAfter !== null;
  }

  /** Whether the server did not answer, or a proxy did so in its place. */
  get isLost() {
    return this.status === 0 || (this.status > 501 && !this.type);
  }

  get isSignedOut() {
    return this.status === 401 || (this.status === 403 && !this.type.endsWith(":not-for-users"));
  }
}

export class Api {
  #base;
  #root;
  #words;

  /** `root` has the conversation's address, and how the site protects its forms, in its data attributes. */
  constructor(root, words) {
    this.#root = root;
    this.#words = words;
    this.#base = new URL(root.dataset.address, location.href);
  }

  /** Send a request and return the parsed answer. `path` is a whole address, or one below the conversation's. */
  async call(method, path, { body, key, signal } = {}) {
    const { response, inTime } = await this.#send(method, path, { body, key, signal });
    return response.status === 204 ? null : inTime(response.json());
  }

  /** Return every result of a list, from all of its pages. */
  async all(path) {
    const results = [];
    for (let next = path; next; ) {
      const page = await this.call("GET", next);
      results.push(...page.results);
      next = page.next;
    }
    return results;
  }

  /** Return the parts of a UI message stream as they come; null if there is none. */
  async stream(method, path, { body, key, signal } = {}) {
    const { response, inTime } = await this.#send(method, path, { body, key, signal, accept: "text/event-stream" });
    return response.status === 204 ? null : this.#chunks(response, inTime);
  }

  /** Return an error for an answer that does not come, or ends before it is whole. */
  lost() {
    return new ApiError(0, this.#words.say("no-answer"));
  }

  async *#chunks(response, inTime) {
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await inTime(reader.read());
      if (done) return;
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      for (const line of lines) {
        const data = line.startsWith("data:") ? line.slice(5).trim() : "";
        if (data === "[DONE]") return;
        if (data) yield JSON.parse(data);
      }
    }
  }

  async #send(method, path, { body, key, signal, accept = "application/json" }) {
    const headers = { Accept: accept };
    if (method !== "GET") headers[this.#root.dataset.csrfHeader] = this.#csrfToken();
    if (body !== undefined) headers["Content-Type"] = "application/json";
    if (key) headers["Idempotency-Key"] = key;
    const sent = body === undefined ? undefined : JSON.stringify(body);
    const dead = new AbortController();
    const either = AbortSignal.any([dead.signal, ...(signal ? [signal] : [])]);
    const inTime = async (promise) => {
      const timer = setTimeout(() => dead.abort(), SILENCE);
      try {
        return await promise;
      } catch {
        signal?.throwIfAborted();
        throw this.lost();
      } finally {
        clearTimeout(timer);
      }
    };
    // Otherwise browsers answer from their cache when somebody comes back to the page.
    const options = { method, headers, body: sent, signal: either, cache: "no-store" };
    const response = await inTime(fetch(new URL(path, this.#base), options));
    if (!response.ok) throw await this.#errorOf(response);
    return { response, inTime };
  }

  /** Return the current token: signing in changes it, perhaps in another tab. Where no cookie has it, the page does. */
  #csrfToken() {
    const { csrfCookie } = this.#root.dataset;
    const cookie = document.cookie.split("; ").find((each) => each.startsWith(`${csrfCookie}=`));
    return cookie?.slice(csrfCookie.length + 1) ?? this.#root.querySelector("[name=csrfmiddlewaretoken]")?.value ?? "";
  }

  async #errorOf(response) {
    const retryAfter = response.headers.get("Retry-After");
    try {
      const { detail, type } = await response.json();
      return new ApiError(response.status, detail, { type, retryAfter });
    } catch {
      return new ApiError(response.status, this.#words.say("answered-status", { status: response.status }), { retryAfter });
    }
  }
}
