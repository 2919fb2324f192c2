// The box to write in, sending what is written, and following the answer.

import { ApiError, replyEvents, stopReply } from "./api.js";
import { announce, byId } from "./dom.js";
import { hideProblem, showError, showProblem } from "./problem.js";
import { callsOf, nameOf, textOf } from "./words.js";

const NEW_TITLE = "Untitled chat";
const DOUBLE_CLICK = 500; // milliseconds; Stop comes up where Send was

export class Composer {
  #box = byId("message");
  #send = byId("send");
  #stop = byId("stop");
  #pending = null; // the text that is being sent, and its idempotency key
  #answering = null;
  #since = 0; // when the answering began

  constructor(conversation, history, onTitle) {
    this.conversation = conversation;
    this.history = history;
    this.onTitle = onTitle;
    this.draft = `draft-${conversation.id}`;
    if (!this.#box.value) this.#box.value = sessionStorage.getItem(this.draft) ?? "";
    this.#box.addEventListener("input", () => this.#keepDraft());
    byId("composer").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#say(this.#box.value);
    });
    this.#box.addEventListener("keydown", (event) => {
      // Safari ends the composition before the Enter that ends it; only this key code shows it.
      if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229) return;
      event.preventDefault();
      this.#say(this.#box.value);
    });
    this.#stop.addEventListener("click", ({ detail, timeStamp }) => {
      if (detail > 1 || timeStamp - this.#since < DOUBLE_CLICK) return;
      this.#answering?.abort();
    });
    for (const suggestion of byId("suggestions").children) {
      suggestion.addEventListener("click", () => this.#say(suggestion.textContent));
    }
  }

  get isBusy() {
    return this.#answering !== null;
  }

  /** Offer to answer a last message that has no answer. */
  offerAnswer() {
    const last = this.conversation.history.at(-1);
    if (!last || !goesOn(last)) hideProblem();
    else if (last.type === "USER" && last.state === "evicted") this.#offerSaying("The last message was forgotten before it was answered.");
    else showProblem("The last message has no answer yet.", { action: "Get the answer", act: () => this.#answer() });
  }

  /** Offer to write a forgotten message again: the model can answer it only if it is sent once more. */
  #offerSaying(text) {
    const said = this.conversation.history.findLast((item) => item.type === "USER");
    const act = () => {
      hideProblem();
      this.#write([textOf(said), this.#box.value].filter(Boolean).join("\n"));
    };
    showProblem(text, said ? { action: "Say it again", act } : {});
  }

  async #say(text) {
    if (this.#answering || !text.trim()) return;
    this.#busy(new AbortController());
    hideProblem();
    if (this.#pending?.text !== text) this.#pending = { text, key: crypto.randomUUID() };
    try {
      await this.conversation.say(text, this.#pending.key);
    } catch (error) {
      this.#busy(null);
      if (this.#box.value.trim() === "") this.#write(text);
      showError(error, () => this.#say(text));
      return;
    }
    this.#pending = null;
    if (this.#box.value === text) this.#write("");
    this.#rename(text);
    await this.#answer();
  }

  async #answer() {
    const controller = new AbortController();
    this.#busy(controller);
    hideProblem();
    this.history.showAnswering("");
    try {
      await this.#follow(replyEvents(this.conversation.id, controller.signal));
    } catch (error) {
      const act = () => this.#answer();
      if (error.name === "AbortError") await this.#stopped(act);
      else if (error.again === false) this.#offerSaying(error.message);
      else showError(error, act);
    } finally {
      this.history.hideAnswering();
      this.#busy(null);
    }
  }

  async #stopped(act) {
    try {
      await stopReply(this.conversation.id);
      showProblem("Stopped. The partial answer was discarded.", { action: "Ask again", act });
    } catch (error) {
      showError(error, act);
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
        for (const item of detail.added) {
          if (item.origin === "summary") announce("A summary took the place of older messages.");
          else announce(`${nameOf(item)}: ${textOf(item) || callsOf(item).join(", ")}`);
        }
        if (goesOn(detail.added.at(-1))) this.history.showAnswering("");
      } else if (event === "stale") {
        await this.conversation.load();
        this.offerAnswer();
        return;
      } else if (event === "error") throw new ApiError(200, detail.detail, detail.again);
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
      // The old title will do.
    }
  }

  #busy(controller) {
    if (this.#answering === null) this.#since = performance.now();
    const held = [this.#send, this.#stop].includes(document.activeElement);
    this.#answering = controller;
    this.#send.hidden = controller !== null;
    this.#stop.hidden = controller === null;
    if (held) this.#box.focus(); // the button is hidden, or will be
    byId("chat-panel").setAttribute("aria-busy", String(controller !== null));
  }

  #write(text) {
    this.#box.value = text;
    this.#keepDraft();
  }

  /** Store what is written, so that it survives signing in again. */
  #keepDraft() {
    if (this.#box.value) sessionStorage.setItem(this.draft, this.#box.value);
    else sessionStorage.removeItem(this.draft);
  }
}

/** Return whether an answer of the model, or of a tool, has to follow a message. */
function goesOn({ type, origin, message }) {
  return (origin !== "summary" && ["USER", "TOOL_EXECUTION_RESULT"].includes(type)) || message.toolExecutionRequests?.length > 0;
}

export { NEW_TITLE };
