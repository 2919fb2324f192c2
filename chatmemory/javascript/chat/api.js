// The REST API as seen from one conversation.

/** An error that the server reported; `status` is 0 if it sent no answer. */
export class ApiError extends Error {
  constructor(status, detail, { type = "", retryAfter = null } = {}) {
    super(detail);
    this.status = status;
    this.type = type;
    this.isBusy = status === 409 && retryAfter !== null;
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
    const response = await this.#send(method, path, { body, key, signal });
    return response.status === 204 ? null : response.json();
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
    const response = await this.#send(method, path, { body, key, signal, accept: "text/event-stream" });
    return response.status === 204 ? null : this.#chunks(response);
  }

  /** Return an error for a stream that ends before it is whole. */
  brokenOff() {
    return new ApiError(0, this.#words.say("broke-off"));
  }

  async *#chunks(response) {
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read().catch((error) => {
        throw error.name === "AbortError" ? error : this.brokenOff();
      });
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
    let response;
    try {
      // Otherwise browsers answer from their cache when somebody comes back to the page.
      response = await fetch(new URL(path, this.#base), { method, headers, signal, body: sent, cache: "no-store" });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new ApiError(0, this.#words.say("no-answer"));
    }
    if (!response.ok) throw await this.#errorOf(response);
    return response;
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
