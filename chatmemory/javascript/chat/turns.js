// Turns: saying something, following the answer as it is made, stopping it, and what to do when there is none.

import { ApiError } from "./api.js";
import { randomKey } from "./keys.js";
import { callsOf, goesOn, textOf } from "./messages.js";
import { Notices } from "./notices.js";

// Seconds after an answer at which to look for the title, or the summary, that the server makes in its own time.
const LOOKS = [1, 2, 4, 8];

const MOST_SPOKEN = 5_000; // characters of a message that are announced

// Seconds to wait after each break of the connection, one after the other; the last for every further one.
const PAUSES = [0.5, 1, 2, 4, 8];

const INTERRUPTED = "urn:chatmemory:problem:turn-interrupted";
const TOO_SMALL = "urn:chatmemory:problem:window-too-small";

/** Dispatches `busy` when an answer begins or ends, and `write` with a text that is to be written again. */
export class Turns extends EventTarget {
  #said = null; // what was asked for last, and its idempotency key: sent again, they are the same turn
  #answering = null;
  #told = -1; // the position of the newest message that was announced, or was there before the answer

  constructor(panel, conversation, history) {
    super();
    this.panel = panel;
    this.api = panel.api;
    this.words = panel.words;
    this.conversation = conversation;
    this.history = history;
    this.notices = new Notices(panel, "turn-", () => history.keepAtEnd());
  }

  get isBusy() {
    return this.#answering !== null;
  }

  /** Say something, and call `onStored` once the server has it. */
  async say(text, onStored) {
    if (this.isBusy || !text.trim()) return;
    await this.#take(this.#ask({ message: text }), onStored);
  }

  /** Say something else in the place of a question. `notices` tells of errors as long as the server does not have it. */
  async edit(position, text, notices) {
    if (this.isBusy || !text.trim()) return;
    await this.#take({ ...this.#ask({ message: text, edit: position }), below: position, notices });
  }

  /** Ask for another answer than the one that begins at a position. */
  async regenerate(position, notices) {
    if (this.isBusy) return;
    const before = this.conversation.history.findLast((item) => item.position < position);
    await this.#take({ ...this.#ask({ regenerate: position }), below: before?.position ?? -1, notices });
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
      await this.#throughBreaks(() => this.#followRunning(signal), { signal });
      this.offerAnswer();
    });
  }

  /** Show what somebody did elsewhere. */
  async catchUp() {
    if (this.isBusy) return;
    const { version } = this.conversation;
    let isNew;
    try {
      await this.conversation.refresh();
      isNew = this.conversation.version !== version || (await this.#isAnswering());
    } catch (error) {
      // Nobody asked for it, and it is tried again when the connection is back.
      if (!error.isLost && !this.isBusy) this.panel.showError(error);
      return;
    }
    if (!this.isBusy && isNew) await this.arrive();
  }

  /** Go to the branch of a message. `arrive()` follows. */
  async switchTo(position) {
    await this.conversation.switchTo(position);
    this.#said = null; // the same text is another question there
  }

  /** Take up where the conversation stands now. */
  async arrive() {
    this.panel.notices.hide();
    this.notices.hide();
    await this.resume();
  }

  /** Return whether an answer is being made of which this page knows nothing: it was signed out, say. */
  async #isAnswering() {
    const last = this.conversation.history.at(-1);
    return last !== undefined && goesOn(last) && (await this.api.stream("HEAD", "turns/stream/")) !== null;
  }

  /** Offer to answer a last message that has no answer. */
  offerAnswer() {
    const last = this.conversation.history.at(-1);
    if (!last || !goesOn(last)) this.notices.hide();
    else if (last.type === "USER" && last.state === "evicted") this.#offerSaying(this.words.say("unanswered-forgotten"));
    else this.notices.showNotice(this.words.say("unanswered"), { action: this.words.say("ask-again"), act: () => this.#take(null) });
  }

  /** Offer to write a forgotten message again: the model can answer it only if it is sent once more. */
  #offerSaying(text) {
    const said = this.conversation.history.findLast((item) => item.type === "USER");
    const act = () => {
      this.notices.hide();
      this.#said = null;
      this.dispatchEvent(new CustomEvent("write", { detail: textOf(said) }));
    };
    this.notices.showNotice(text, said ? { action: this.words.say("say-again"), act } : {});
  }

  /** Return a request with its key: the last one if it asked for the same. */
  #ask(body) {
    if (JSON.stringify(this.#said?.body) !== JSON.stringify(body)) {
      this.#said = { body, key: randomKey(), since: this.conversation.version };
    }
    return this.#said;
  }

  /** Take a turn; without a request it goes on from where the conversation stands. */
  async #take(said, onStored = () => {}) {
    const stored = () => {
      onStored();
      onStored = () => {};
    };
    // Also true if another page said the same meanwhile: then that is answered.
    const isStored = () => !said || isDone(this.conversation.history, said);
    const look = () => isStored() && stored();
    const last = this.conversation.history.at(-1);
    const mayBranch = !said?.body.message || (last && goesOn(last)); // the last question may have answers elsewhere
    const ask = async (signal) => {
      try {
        const body = said?.body ?? { message: null };
        await this.#follow(await this.api.stream("POST", "turns/", { body, key: said?.key, signal }), stored);
      } catch (error) {
        // Before there was anything to stream the message was stored, and left the memory.
        if (error.type === TOO_SMALL) await this.conversation.refresh().then(stored);
        if (!error.isBusy) throw error;
        await this.conversation.refresh();
        if (!isStored()) throw error;
        await this.#followRunning(signal, look); // it is the answer to this message that is being made
        this.offerAnswer();
      }
      stored();
      // Answers that were there already are not stored once more.
      await this.conversation.refresh();
      if (mayBranch) await this.#readBranches();
    };
    const goOn = async (signal) => {
      await this.#followRunning(signal, look);
      if (isStored()) this.offerAnswer();
      else await ask(signal);
    };
    if (said?.notices && !isStored()) this.history.cut(said.below);
    await this.#while(
      async (signal) => {
        await this.#throughBreaks(() => ask(signal), { again: () => goOn(signal), signal });
        this.#said = null;
      },
      { again: () => this.#take(said, stored), isStored, onStored: stored, notices: said?.notices },
    );
    if (!this.isBusy) this.#lookAgain();
  }

  /** Follow the answer that is being made, if one is, and read what was stored without this page. */
  async #followRunning(signal, onRead = () => {}) {
    const read = async () => {
      await this.conversation.refresh();
      onRead();
      this.#tellNew();
    };
    const chunks = await this.api.stream("GET", "turns/stream/", { signal });
    await read();
    if (!chunks) return;
    this.history.showState(this.words.say("answering"));
    // What was stored before is shown already, so that only what is stored now is of interest.
    await this.#follow(onlyStored(chunks));
    await read();
    await this.#readBranches();
  }

  /** Do something, and after each break of the connection `again`, until nothing breaks: perhaps for hours. */
  async #throughBreaks(act, { again = act, signal = null, state = "reconnecting" } = {}) {
    for (let breaks = 0, next = act; ; next = again) {
      const since = performance.now();
      try {
        return await next();
      } catch (error) {
        const canGoOn = error.isLost || (breaks && error.canWait);
        if (!canGoOn || this.panel.signal.aborted) throw error;
      }
      if (performance.now() - since > PAUSES.at(-1) * 1000) breaks = 0; // there was a connection
      if (!breaks) this.panel.announce(this.words.say(state));
      this.history.showState(this.words.say(state));
      await pause(PAUSES[Math.min(breaks, PAUSES.length - 1)], signal);
      breaks += 1;
    }
  }

  async #while(work, { again = () => this.#take(null), isStored = () => true, onStored = () => {}, notices = this.notices } = {}) {
    const controller = new AbortController();
    this.#busy(controller);
    this.panel.notices.hide();
    this.notices.hide();
    this.#told = this.conversation.newest;
    this.history.showAnswering("");
    try {
      await work(controller.signal);
      await this.history.uncut();
    } catch (error) {
      await this.history.uncut();
      const isStopped = error.name === "AbortError" || error instanceof Interrupted || error.type === INTERRUPTED;
      if (isStopped) await this.#stopped(error, { again, isStored, onStored, notices });
      else this.#failed(error, { again, notices: isStored() ? this.notices : notices });
    } finally {
      this.history.hideAnswering();
      this.#busy(null);
    }
  }

  /** Show what was read of the answer, which is stored; if nothing was, offer to ask again. */
  async #stopped(error, { again, isStored, onStored, notices }) {
    try {
      let isAsked = error.name === "AbortError"; // otherwise it was on another page
      const stop = async () => {
        if (isAsked) await this.api.call("DELETE", "turns/");
        isAsked = false;
        await this.conversation.refresh();
      };
      await this.#throughBreaks(stop, { state: "stopping" });
    } catch (problem) {
      return (isStored() ? this.notices : notices).showError(problem, again);
    }
    if (isStored()) onStored();
    const last = this.conversation.history.at(-1);
    if (!isStored() || !last || goesOn(last)) {
      (isStored() ? this.notices : notices).showNotice(this.words.say("stopped"), { action: this.words.say("ask-again"), act: again });
    } else {
      this.#said = null; // the same text again is another question
      this.#tellNew();
      this.panel.announce(this.words.say("was-stopped"));
    }
  }

  #failed(error, { again, notices }) {
    const last = this.conversation.history.at(-1);
    if (error.isBusy || notices !== this.notices) notices.showRefusal(error, again);
    else if (last?.type === "USER" && last.state === "evicted") this.#offerSaying(this.words.say("too-small"));
    else if (error.status === 409) this.#offerSaying(error.message);
    else this.notices.showError(error, again);
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
    throw this.api.lost();
  }

  async #apply(change) {
    await this.conversation.apply(change);
    if (change.added.some((item) => item.origin === "summary")) this.panel.announce(this.words.say("summary-came"));
    this.#tellNew();
    if (change.added.length && goesOn(change.added.at(-1))) this.history.showAnswering("");
  }

  /** Announce what was stored since the last time. The words of an answer that is there as a whole are not shown twice. */
  #tellNew() {
    const isNew = ({ position, type }) => position > this.#told && !["SYSTEM", "USER"].includes(type);
    const fresh = this.conversation.history.filter(isNew);
    for (const item of fresh) this.panel.announce(this.#spoken(item));
    if (fresh.some((item) => item.type === "AI")) this.history.hideAnswering();
    this.#told = this.conversation.newest;
  }

  /** Read which messages follow the last question, or the last answer, beside the one that does. */
  async #readBranches() {
    const { history } = this.conversation;
    const asked = history.findLastIndex((item) => item.type === "USER");
    for (const item of history.slice(Math.max(0, asked), asked + 2)) await this.conversation.readAgain(item.position);
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

/** Return whether the conversation is where a request has brought it. */
function isDone(history, { body, since }) {
  if (body.regenerate !== undefined) return !history.some((item) => item.position === body.regenerate);
  return history.some((item) => item.type === "USER" && item.added_in > since && textOf(item) === body.message);
}

/** Wait for some seconds, or until the connection may be back, or somebody looks at the page again. */
function pause(seconds, signal) {
  return new Promise((resolve, reject) => {
    const done = new AbortController();
    const end = () => {
      done.abort();
      if (signal?.aborted) reject(signal.reason);
      else resolve();
    };
    // Not all pages at once, when a site comes back.
    const timer = setTimeout(end, seconds * 1000 * (0.75 + Math.random() / 2));
    done.signal.addEventListener("abort", () => clearTimeout(timer));
    addEventListener("online", end, { signal: done.signal });
    document.addEventListener("visibilitychange", () => document.hidden || end(), { signal: done.signal });
    signal?.addEventListener("abort", end, { signal: done.signal });
    if (signal?.aborted) end();
  });
}

/** An end of the answer that somebody asked for, perhaps on another page. */
class Interrupted extends Error {}

async function* onlyStored(chunks) {
  for await (const chunk of chunks) if (!/^(text|reasoning|tool)-/.test(chunk.type)) yield chunk;
}
