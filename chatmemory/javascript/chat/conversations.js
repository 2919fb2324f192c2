// The element <chatmemory-conversations>: the list of one's own conversations, with new, rename and erase.

import { Api } from "./api.js";
import { randomKey } from "./keys.js";
import { Question } from "./question.js";
import { Words } from "./words.js";

const PAGE = 30;
const SPOKEN = 10_000; // milliseconds for which an announcement stays
const UUID = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/i;

let made = 0;

/**
 * Events `chatmemory:conversation`, which bubble; `detail` has `action`, `id` and `address` (of its page).
 *
 * "open" and "created" lead to the address, and "erased" too if this is the page of what was erased, unless the page calls
 * `preventDefault()`. "creating" has no ID yet; then comes "created", or "failed". "renamed" has the `title`.
 */
export class Conversations extends HTMLElement {
  #rows = new Map(); // by ID: the elements, in the order of the list
  #next = null; // the page of the list after those read
  #key = null; // of the request that makes a conversation: a second try makes no second one
  #leaving = new AbortController();

  connectedCallback() {
    if (this.words) return; // moved within the page
    this.words = new Words(this);
    this.api = new Api(this, this.words);
    this.number = made += 1;
    this.times = new Intl.DateTimeFormat(this.words.language, { dateStyle: "medium", timeStyle: "short" });
    this.renaming = new Question(this.part("rename-dialog"), (error) => this.#explain(error, this.part("rename-problem")));
    this.erasing = new Question(this.part("erase-dialog"), (error) => this.#explain(error, this.part("erase-problem")));
    this.part("new").addEventListener("click", () => this.#try(() => this.#create()));
    this.part("older").addEventListener("click", () => this.#try(() => this.#showOlder()));
    const { signal } = this.#leaving;
    document.addEventListener("visibilitychange", () => document.hidden || this.refresh(), { signal });
    document.addEventListener("chatmemory:title", ({ detail }) => this.#retitle(detail), { signal });
    this.refresh().then(() => (this.dataset.ready = ""));
  }

  disconnectedCallback() {
    queueMicrotask(() => this.isConnected || this.#leaving.abort());
  }

  /** The ID of the conversation that the page shows; empty if it shows none. A page that loads no other one sets it. */
  get current() {
    return this.dataset.current;
  }

  set current(id) {
    this.dataset.current = id;
    for (const [each, row] of this.#rows) mark(row, each === id);
    if (id && !this.#rows.has(id)) this.refresh();
  }

  /** Read the list afresh. */
  async refresh() {
    await this.#try(async () => {
      const page = await this.api.call("GET", `?page_size=${PAGE}`);
      const found = page.results;
      if (this.current && !found.some(({ id }) => id === this.current)) found.push(...(await this.#find(this.current)));
      this.#next = page.next;
      this.#show(found);
    });
  }

  /** Return the element with a `data-part`. */
  part(name) {
    return this.querySelector(`[data-part="${name}"]`);
  }

  addressOf(id) {
    return new URL(this.dataset.page.replace(this.dataset.placeholder, id), location.href).href;
  }

  async #find(id) {
    try {
      return [await this.api.call("GET", `${encodeURIComponent(id)}/`)];
    } catch (error) {
      if (error.status === 404) return []; // erased
      throw error;
    }
  }

  #show(conversations) {
    const focused = document.activeElement;
    const place = [focused?.closest?.("li")?.dataset.id, focused?.dataset?.part];
    this.#rows = new Map(conversations.map((each) => [each.id, this.#row(each)]));
    this.part("list").replaceChildren(...this.#rows.values());
    this.#rows.get(place[0])?.querySelector(`[data-part="${place[1]}"]`).focus();
    this.#showEnds();
  }

  #showEnds() {
    this.part("empty").hidden = this.#rows.size > 0;
    this.part("older").hidden = this.#next === null;
  }

  #row(conversation) {
    const { id } = conversation;
    const row = this.part("row").content.firstElementChild.cloneNode(true);
    const part = (name) => row.querySelector(`[data-part="${name}"]`);
    row.dataset.id = id;
    part("open").href = this.addressOf(id);
    part("title").textContent = this.#nameOf(conversation);
    part("time").dateTime = conversation.updated_at;
    part("time").textContent = this.times.format(new Date(conversation.updated_at));
    for (const name of ["title", "rename", "erase"]) part(name).id = `chatmemory-${this.number}-${name}-${id}`;
    for (const name of ["rename", "erase"]) part(name).setAttribute("aria-labelledby", `${part(name).id} ${part("title").id}`);
    part("open").addEventListener("click", (event) => {
      if (event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return; // a new tab, say
      if (!this.#tell("open", id)) event.preventDefault();
    });
    part("rename").addEventListener("click", () => this.#try(() => this.#rename(id)));
    part("erase").addEventListener("click", () => this.#try(() => this.#erase(id)));
    mark(row, id === this.current);
    return row;
  }

  #nameOf({ title, memory_id: memoryId }) {
    return title || (UUID.test(memoryId) ? this.words.say("untitled") : memoryId);
  }

  async #showOlder() {
    const page = await this.api.call("GET", this.#next);
    const rows = page.results.filter(({ id }) => !this.#rows.has(id)).map((each) => [each.id, this.#row(each)]);
    this.#next = page.next;
    for (const [id, row] of rows) this.#rows.set(id, row);
    this.part("list").append(...rows.map(([, row]) => row));
    this.#showEnds();
    rows[0]?.[1].querySelector("a").focus({ preventScroll: true });
  }

  async #create() {
    const chats = [...document.querySelectorAll("chatmemory-chat")];
    const button = this.part("new");
    if (button.getAttribute("aria-disabled") === "true") return;
    button.setAttribute("aria-disabled", "true");
    this.#key ??= randomKey();
    this.#tell("creating");
    for (const chat of chats) chat.hold?.();
    try {
      const conversation = await this.api.call("POST", "", { body: {}, key: this.#key });
      this.#key = null;
      this.#rows = new Map([[conversation.id, this.#row(conversation)], ...this.#rows]);
      this.part("list").prepend(this.#rows.get(conversation.id));
      this.#showEnds();
      this.#announce("created");
      for (const chat of chats) chat.handOver?.(conversation.id);
      this.#go("created", conversation.id);
    } catch (error) {
      for (const chat of chats) chat.release?.();
      this.#tell("failed");
      throw error;
    } finally {
      button.removeAttribute("aria-disabled");
    }
  }

  async #rename(id) {
    const conversation = await this.#read(id);
    if (!conversation) return;
    const input = this.renaming.dialog.querySelector("input");
    input.value = conversation.title;
    const isDone = await this.renaming.ask(async () => {
      const { title } = await this.api.call("PATCH", `${id}/`, { body: { title: input.value } });
      this.#retitle({ id, title: this.#nameOf({ ...conversation, title }) });
      this.#tell("renamed", id, { title });
    });
    if (isDone) this.#announce("renamed");
  }

  async #erase(id) {
    const conversation = await this.#read(id);
    if (!conversation) return;
    this.part("erase-title").textContent = this.#nameOf(conversation);
    this.part("lost").textContent = this.words.amount("lost", conversation.message_count);
    const isDone = await this.erasing.ask(async () => {
      try {
        await this.api.call("DELETE", `${id}/`);
      } catch (error) {
        if (error.status !== 404) throw error; // erased by somebody else
      }
    });
    if (!isDone) return;
    this.#announce("erased");
    const left = this.#remove(id);
    if (id !== this.current) this.#tell("erased", id);
    else if (left) this.#go("erased", id, left);
    else if (this.#tell("erased", id)) await this.#create(); // this page has nothing to show any more
  }

  /** Return the conversation as it is now, or null after its row was removed. */
  async #read(id) {
    const [conversation = null] = await this.#find(id);
    if (!conversation) {
      this.#remove(id);
      this.#explain(new Error(this.words.say("gone")));
    }
    return conversation;
  }

  /** Remove a row, and return the ID of the one that gets the focus; the list may have none any more. */
  #remove(id) {
    const row = this.#rows.get(id);
    const near = row?.nextElementSibling ?? row?.previousElementSibling;
    row?.remove();
    this.#rows.delete(id);
    this.#showEnds();
    (near?.querySelector("a") ?? this.part("new")).focus();
    return near?.dataset.id;
  }

  #retitle({ id, title }) {
    const shown = this.#rows.get(id)?.querySelector('[data-part="title"]');
    if (shown && title) shown.textContent = title;
  }

  /** Tell the page, and go to a page of a conversation unless it has done so itself. */
  #go(action, id, to = id) {
    if (this.#tell(action, id)) location.assign(this.addressOf(to));
  }

  #tell(action, id = null, more = {}) {
    const detail = { action, id, address: id && this.addressOf(id), ...more };
    return this.dispatchEvent(new CustomEvent("chatmemory:conversation", { bubbles: true, cancelable: true, detail }));
  }

  async #try(act) {
    try {
      this.part("problem").hidden = true;
      await act();
    } catch (error) {
      this.#explain(error);
    }
  }

  /** Show an error where its user looks, and a way to sign in if that would help. */
  #explain(error, place = this.part("problem")) {
    const { signIn } = this.dataset;
    const text = document.createElement("p");
    text.textContent = error.isSignedOut ? this.words.say("signed-out") : error.message;
    place.replaceChildren(text);
    if (error.isSignedOut && signIn) {
      const link = document.createElement("a");
      link.href = `${signIn}?next=${encodeURIComponent(location.pathname + location.search)}`;
      link.textContent = this.words.say("sign-in");
      place.append(link);
    }
    place.hidden = false;
  }

  #announce(name) {
    const line = document.createElement("p");
    line.textContent = this.words.say(name);
    this.part("status").append(line);
    setTimeout(() => line.remove(), SPOKEN);
  }
}

function mark(row, isCurrent) {
  if (isCurrent) row.querySelector("a").setAttribute("aria-current", "page");
  else row.querySelector("a").removeAttribute("aria-current");
}

customElements.define("chatmemory-conversations", Conversations);
