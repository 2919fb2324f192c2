// The page's copy of a conversation. It is updated by the page's requests, by the stream and by reading it again.

import { isSummary } from "./messages.js";

const PAGE = 30;
const AT_ONCE = 200;

// What is in the memory in the place of messages that were said.
const STAND_INS = ["cleared", "restored", "summary"];

export class Conversation extends EventTarget {
  #items = new Map(); // by position: the messages read so far
  #next = null; // the page before the oldest one read

  constructor(api) {
    super();
    this.api = api;
    this.settings = {};
    this.memory = { window: "messages", limit: 1, messages: 0, tokens: 0 };
    this.version = -1;
    this.kept = []; // the memory: what the model gets, in order
  }

  /** Read everything afresh, and the messages at least down to a position. */
  async load(position = Infinity) {
    const [settings, page] = await Promise.all([
      this.api.call("GET", ""),
      this.api.call("GET", `messages/?branch=current&ordering=-position&page_size=${PAGE}`),
    ]);
    this.#settle(settings);
    this.#next = page.next;
    this.#items = new Map(page.results.map((item) => [item.position, item]));
    while (this.hasOlder && this.oldest > position) await this.#readPage(AT_ONCE);
    await this.#readMemory();
    this.dispatchEvent(new Event("loaded"));
  }

  /** Read everything afresh if somebody changed something. */
  async refresh() {
    const settings = await this.api.call("GET", "");
    if (settings.version !== this.version) await this.load();
    else this.#settle(settings);
  }

  get id() {
    return this.settings.id;
  }

  /** The title, or without one the first words; empty if there are none. */
  get title() {
    return this.settings.display_title;
  }

  /** Whether a while after an answer there may be more: a title, or a summary. */
  get mayChangeByItself() {
    return !this.settings.title || this.settings.compact_at !== null;
  }

  /** The messages read so far that were said, oldest first. */
  get history() {
    return [...this.#items.values()].filter((item) => !item.synthetic).sort((one, other) => one.position - other.position);
  }

  get hasOlder() {
    return this.#next !== null;
  }

  /** The summary in the memory, if there is one. */
  get summary() {
    return this.kept.find((item) => item.origin === "summary");
  }

  /** Return whether the model knows of a message that left by the summary only. */
  isSummarised({ position, state, type }) {
    const { covers_from: first, covers_to: last } = this.summary ?? {};
    return state === "evicted" && type !== "SYSTEM" && first <= position && position <= last;
  }

  get forgotten() {
    return Math.max(0, this.#count - this.kept.length);
  }

  /** How many messages were said; where there are branches, on this one, or at most so many. */
  get #count() {
    const { history } = this;
    if (!history.some((item) => item.siblings)) return this.settings.message_count;
    return history.length + (this.hasOlder ? this.oldest : 0);
  }

  /** The position of the oldest message read so far. */
  get oldest() {
    return Math.min(...this.#items.keys());
  }

  /** The position of the newest message read so far; -1 if there is none. */
  get newest() {
    return Math.max(...this.#items.keys(), -1);
  }

  /** Read one more page of older messages. */
  async readOlder(count = PAGE) {
    const items = await this.#readPage(count);
    this.#markKept();
    return items.reverse();
  }

  async #readPage(count) {
    const next = new URL(this.#next);
    next.searchParams.set("page_size", count);
    const page = await this.api.call("GET", next);
    this.#next = page.next;
    for (const item of page.results) if (!this.#items.has(item.position)) this.#items.set(item.position, item);
    return page.results;
  }

  /** Read a message again: of those that the stream brings, nobody knows the siblings. */
  async readAgain(position) {
    const item = await this.api.call("GET", `messages/${position}/`);
    Object.assign(this.#items.get(position), item);
    this.#markKept();
    this.dispatchEvent(new CustomEvent("changed", { detail: { added: [], evicted: [] } }));
  }

  /** Go to the branch of a message. */
  async switchTo(position) {
    const down = Math.min(this.oldest, position);
    await this.api.call("POST", "switch/", { body: { position } });
    await this.load(down);
  }

  /** Return what another window would do. */
  async tryWindow(window, limit, signal) {
    const trial = await this.api.call("POST", "memory/preview/", { body: { window, limit }, signal });
    return { ...trial, evicted: trial.evicted.map(original) };
  }

  async setWindow(window, limit) {
    const answer = await this.api.call("PATCH", "", { body: { window, limit } });
    this.#settle(answer);
    const { newest } = this;
    // A message was added that this page has not read yet.
    if (answer.evicted.some((item) => item.position > newest || item.reason === "tool_cleared")) await this.load();
    else this.#notice([], answer.evicted);
  }

  /** Apply what an addition did, be it from an answer or from the stream. */
  async apply({ added, evicted, memory, version }) {
    const missedSome = version > this.version + 1 || evicted.some((item) => item.reason === "rewound");
    // A system message may go before others, and a note or a summary goes where the messages were that it covers.
    const outOfOrder = added.some((item) => item.type === "SYSTEM" || STAND_INS.includes(item.origin));
    this.settings.message_count = Math.max(this.settings.message_count, ...added.map((item) => item.position + 1));
    if (version >= this.version) {
      this.version = version;
      this.memory = memory;
    }
    if (missedSome || outOfOrder) await this.load();
    else this.#notice(added, evicted);
  }

  #settle(settings) {
    const isRenamed = settings.display_title !== this.title;
    this.settings = settings;
    this.version = settings.version;
    this.memory = {
      window: settings.window,
      limit: settings.limit,
      messages: settings.retained_count,
      tokens: settings.retained_tokens,
    };
    if (isRenamed) this.dispatchEvent(new Event("titled"));
  }

  #notice(added, evicted) {
    const fresh = [];
    for (const item of added) {
      if (this.#items.has(item.position)) continue; // the request was repeated
      this.#items.set(item.position, item);
      fresh.push(item);
      if (item.state === "retained") this.kept.push(item);
    }
    // Fields of other apps are only at messages that were read.
    const left = evicted.map(original);
    const gone = new Map(left.map((item) => [item.position, Object.assign(this.#items.get(item.position) ?? {}, item)]));
    for (const [position, item] of gone) if (this.#items.has(position)) this.#items.set(position, item);
    this.kept = this.kept.filter((item) => !gone.has(item.position));
    this.dispatchEvent(new CustomEvent("changed", { detail: { added: fresh, evicted: [...gone.values()] } }));
  }

  /** Read the memory, which has the order, and match it with the history, which has the details of each message. */
  async #readMemory() {
    const [memory, retained] = await Promise.all([
      this.api.call("GET", "memory/"),
      this.api.all("messages/?state=retained&page_size=200"),
    ]);
    // Nobody said them, so they are asked for by name.
    const origins = [memory.messages.some(isSummary) && "summary", retained.length < memory.messages.length && "restored"];
    const named = await Promise.all(origins.filter(Boolean).map((origin) => this.api.all(`messages/?state=retained&origin=${origin}`)));
    const waiting = new Map();
    for (const item of [...retained, ...named.flat().map(original)]) {
      const same = waiting.get(JSON.stringify(item.message)) ?? [];
      waiting.set(JSON.stringify(item.message), [...same, item]);
    }
    this.kept = memory.messages.map((message, index) => {
      const known = waiting.get(JSON.stringify(message))?.shift();
      // Nobody said what a rewrite put in, so the history does not have it.
      return known ?? { position: `rewritten-${index}`, type: message.type, text: "", message, token_count: null };
    });
    this.#markKept();
  }

  /** Mark the messages that had left the memory, and of which it has a copy. */
  #markKept() {
    for (const { position } of this.kept) Object.assign(this.#items.get(position) ?? {}, { state: "retained" });
  }
}

/** Return the message of which the memory has a copy, because the conversation went back, as if it had never left. */
function original(item) {
  if (item.origin !== "restored") return item;
  const { created_at, synthetic, ...same } = item;
  return { ...same, origin: "said", position: item.covers_from };
}
