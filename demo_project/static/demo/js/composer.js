// Where one writes, and what becomes of it: said, answered, or why not.

import { ApiError, replyEvents } from "./api.js";
import { announce, byId, el } from "./dom.js";
import { callsOf, nameOf, textOf } from "./words.js";

const NEW_TITLE = "New chat";

export class Composer {
  #box = byId("message");
  #send = byId("send");
  #stop = byId("stop");
  #problem = byId("problem");
  #pending = null; // what is being said, and the key by which it is said once
  #answering = null;

  constructor(conversation, history, onTitle) {
    this.conversation = conversation;
    this.history = history;
    this.onTitle = onTitle;
    byId("composer").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#say(this.#box.value);
    });
    this.#box.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.#say(this.#box.value);
    });
    this.#stop.addEventListener("click", () => this.#answering?.abort());
    for (const suggestion of byId("suggestions").children) {
      suggestion.addEventListener("click", () => this.#say(suggestion.textContent));
    }
  }

  /** Offer to go on where a conversation was left without an answer. */
  offerAnswer() {
    const last = this.conversation.history.at(-1);
    if (!last) return;
    if (goesOn(last)) this.#showProblem("The last message has no answer yet.", "Get the answer", () => this.#answer());
  }

  /** Say what went wrong, and offer to try again if that can help. */
  showError(error, again = null) {
    if (error.status === 403) {
      const link = el("a", { href: `${document.body.dataset.signIn}?next=${encodeURIComponent(location.pathname)}` }, "Sign in again");
      this.#showProblem("You are signed out.", null, null, link);
    } else this.#showProblem(error.message, again && "Try again", again);
  }

  async #say(text) {
    if (this.#answering || !text.trim()) return;
    this.#busy(new AbortController());
    this.#hideProblem();
    if (this.#pending?.text !== text) this.#pending = { text, key: crypto.randomUUID() };
    try {
      await this.conversation.say(text, this.#pending.key);
    } catch (error) {
      this.#busy(null);
      if (this.#box.value.trim() === "") this.#box.value = text;
      this.showError(error, () => this.#say(text));
      return;
    }
    this.#pending = null;
    if (this.#box.value === text) this.#box.value = "";
    this.#rename(text);
    await this.#answer();
  }

  async #answer() {
    const controller = new AbortController();
    this.#busy(controller);
    this.#hideProblem();
    this.history.showAnswering("");
    try {
      await this.#follow(replyEvents(this.conversation.id, controller.signal));
    } catch (error) {
      if (error.name === "AbortError") this.#showProblem("Stopped. What there was of the answer is not kept.", "Ask again", () => this.#answer());
      else this.showError(error, () => this.#answer());
    } finally {
      this.history.hideAnswering();
      this.#busy(null);
      this.history.toEnd(true);
    }
  }

  async #follow(events) {
    let text = "";
    for await (const { event, ...detail } of events) {
      if (event === "delta") {
        text += detail.text;
        this.history.showAnswering(text);
      } else if (event === "change") {
        text = "";
        this.history.hideAnswering();
        await this.conversation.apply(detail);
        for (const item of detail.added) announce(`${nameOf(item)}: ${textOf(item) || callsOf(item).join(", ")}`);
        if (goesOn(detail.added.at(-1))) this.history.showAnswering("");
      } else if (event === "stale") {
        await this.conversation.load();
        this.offerAnswer();
        return;
      } else if (event === "error") throw new ApiError(200, detail.detail);
      else if (event === "done") return;
    }
    throw new ApiError(0, "The connection to the demo broke off.");
  }

  async #rename(text) {
    if (this.conversation.settings.title !== NEW_TITLE) return;
    const [line] = text.trim().split("\n");
    try {
      await this.conversation.rename(line.length > 60 ? `${line.slice(0, 59)}…` : line);
      this.onTitle();
    } catch {
      // The old title does as well.
    }
  }

  #busy(controller) {
    this.#answering = controller;
    this.#send.hidden = controller !== null;
    this.#stop.hidden = controller === null;
    byId("chat-panel").setAttribute("aria-busy", String(controller !== null));
  }

  #showProblem(text, action, act, link = null) {
    const button = action && el("button", { type: "button" }, action);
    button?.addEventListener("click", () => {
      this.#box.focus(); // the button goes away
      act();
    });
    this.#problem.replaceChildren(el("p", {}, text), ...[button, link].filter(Boolean));
    this.#problem.hidden = false;
    this.history.toEnd(true);
  }

  #hideProblem() {
    this.#problem.hidden = true;
    this.#problem.replaceChildren();
  }
}

/** Whether the model, or a tool, has to follow a message. */
function goesOn({ type, message }) {
  return ["USER", "TOOL_EXECUTION_RESULT"].includes(type) || message.toolExecutionRequests?.length > 0;
}

export { NEW_TITLE };
