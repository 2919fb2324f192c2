// Turns: saying something, following the answer as it is made, stopping it, and what to do when there is none.

import { ApiError } from "./api.js";
import { randomKey } from "./keys.js";
import { callsOf, goesOn, textOf } from "./messages.js";

// Seconds after an answer at which to look for the title, or the summary, that the server makes in its own time.
const LOOKS = [1, 2, 4, 8];

const MOST_SPOKEN = 5_000; // characters of a message that are announced

const INTERRUPTED = "urn:chatmemory:problem:turn-interrupted";
const TOO_SMALL = "urn:chatmemory:problem:window-too-small";

/** Dispatches `busy` when an answer begins or ends, and `write` with a text that is to be written again. */
export class Turns extends EventTarget {
  #said = null; // the text that was said last, and its idempotency key: sent again, they are the same turn
  #answering = null;

  constructor(panel, conversation, history) {
    super();
    this.panel = panel;
    this.api = panel.api;
    this.words = panel.words;
    this.conversation = conversation;
    this.history = history;
  }

  get isBusy() {
    return this.#answering !== null;
  }

  /** Say something, and call `onStored` once the server has it. */
  async say(text, onStored) {
    if (this.isBusy || !text.trim()) return;
    if (this.#said?.text !== text) this.#said = { text, key: randomKey() };
    await this.#take(this.#said, onStored);
  }

  /** Stop the answer in progress. */
  stop() {
    this.#answering?.abort();
  }

  /** Follow an answer that is being made already; if none is, offer to have it made where one is missing. */
  async resume() {
    const last = this.conversation.history.at(-1);
    if (this.isBusy || !last || !goesOn(last)) return;
    await this.#while(async (signal) => {
      const chunks = await this.api.stream("GET", "turns/stream/", { signal });
      // What was stored before is shown already, so that only what is stored now is of interest.
      if (chunks) await this.#follow(onlyStored(chunks));
      await this.conversation.refresh();
      this.offerAnswer();
    });
  }

  /** Show what somebody did elsewhere. */
  async catchUp() {
    if (this.isBusy) return;
    const { version } = this.conversation;
    await this.conversation.refresh().catch((error) => this.panel.showError(error));
    if (this.isBusy || this.conversation.version === version) return;
    this.panel.hideMessages();
    await this.resume();
  }

  /** Offer to answer a last message that has no answer. */
  offerAnswer() {
    const last = this.conversation.history.at(-1);
    if (!last || !goesOn(last)) this.panel.hideMessages();
    else if (last.type === "USER" && last.state === "evicted") this.#offerSaying(this.words.say("unanswered-forgotten"));
    else this.panel.showNotice(this.words.say("unanswered"), { action: this.words.say("get-answer"), act: () => this.#take(null) });
  }

  /** Offer to write a forgotten message again: the model can answer it only if it is sent once more. */
  #offerSaying(text) {
    const said = this.conversation.history.findLast((item) => item.type === "USER");
    const act = () => {
      this.panel.hideMessages();
      this.#said = null;
      this.dispatchEvent(new CustomEvent("write", { detail: textOf(said) }));
    };
    this.panel.showNotice(text, said ? { action: this.words.say("say-again"), act } : {});
  }

  /** Take a turn; without a message it goes on from where the conversation stands. */
  async #take(said, onStored = () => {}) {
    const stored = () => {
      onStored();
      onStored = () => {};
    };
    await this.#while(
      async (signal) => {
        try {
          const body = { message: said?.text ?? null };
          await this.#follow(await this.api.stream("POST", "turns/", { body, key: said?.key, signal }), stored);
        } catch (error) {
          // Before there was anything to stream the message was stored, and left the memory.
          if (error.type === TOO_SMALL) await this.conversation.refresh().then(stored);
          throw error;
        }
        stored();
        // Answers that were there already are not stored once more.
        await this.conversation.refresh();
        this.#said = null;
      },
      () => this.#take(said, stored),
    );
    if (!this.isBusy) this.#lookAgain();
  }

  async #while(work, again = () => this.#take(null)) {
    const controller = new AbortController();
    this.#busy(controller);
    this.panel.hideMessages();
    this.history.showAnswering("");
    try {
      await work(controller.signal);
    } catch (error) {
      if (error.name === "AbortError") await this.#stopped(again);
      else this.#failed(error, again);
    } finally {
      this.history.hideAnswering();
      this.#busy(null);
    }
  }

  async #stopped(again) {
    try {
      await this.api.call("DELETE", "turns/");
      this.#tellStopped(again);
    } catch (error) {
      this.panel.showError(error, again);
    }
  }

  #tellStopped(again) {
    this.panel.showNotice(this.words.say("stopped"), { action: this.words.say("ask-again"), act: again });
  }

  #failed(error, again) {
    const last = this.conversation.history.at(-1);
    if (error instanceof Interrupted || error.type === INTERRUPTED) this.#tellStopped(again);
    else if (error.isBusy) this.panel.showNotice(this.words.say("busy"), { action: this.words.say("try-again"), act: again });
    else if (last?.type === "USER" && last.state === "evicted") this.#offerSaying(this.words.say("too-small"));
    else if (error.status === 409) this.#offerSaying(error.message);
    else this.panel.showError(error, again);
  }

  async #follow(chunks, onStored = () => {}) {
    let text = "";
    for await (const chunk of chunks) {
      if (chunk.type === "text-delta") this.history.showAnswering((text += chunk.delta));
      else if (chunk.type === "reasoning-delta" && !text) this.history.showAnswering("", { isThinking: true });
      else if (chunk.type === "data-memory" && chunk.data.recalled) continue; // nothing was stored
      else if (chunk.type === "data-memory") {
        text = "";
        await this.#apply(chunk.data);
        onStored();
      } else if (chunk.type === "error") throw new ApiError(200, chunk.errorText);
      else if (chunk.type === "abort") throw new Interrupted();
      else if (chunk.type === "finish") return;
    }
    throw this.api.brokenOff();
  }

  async #apply(change) {
    this.history.hideAnswering();
    await this.conversation.apply(change);
    for (const item of change.added) {
      if (item.origin === "summary") this.panel.announce(this.words.say("summary-came"));
      else if (!["SYSTEM", "USER"].includes(item.type) && !item.synthetic) this.panel.announce(this.#spoken(item));
    }
    if (change.added.length && goesOn(change.added.at(-1))) this.history.showAnswering("");
  }

  #spoken(item) {
    const text = (textOf(item) || callsOf(item).join(", ")).slice(0, MOST_SPOKEN);
    return `${this.words.nameOf(item)}: ${text}`;
  }

  /** Look for what the server makes after an answer, until it is there or somebody says something. */
  async #lookAgain() {
    const { version } = this.conversation;
    for (const seconds of LOOKS) {
      await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
      if (this.isBusy || this.panel.signal.aborted || this.conversation.version !== version) return;
      if (!this.conversation.mayChangeByItself) return;
      await this.conversation.refresh().catch(() => {}); // it was not asked for
    }
  }

  #busy(controller) {
    this.#answering = controller;
    this.dispatchEvent(new Event("busy"));
  }
}

/** An end of the answer that somebody asked for, perhaps on another page. */
class Interrupted extends Error {}

async function* onlyStored(chunks) {
  for await (const chunk of chunks) if (!/^(text|reasoning|tool)-/.test(chunk.type)) yield chunk;
}
