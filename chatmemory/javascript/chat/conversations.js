// The element <chatmemory-conversations>: the list of one's own conversations, with search, new, rename and erase.

import { Api } from "./api.js";
import { Days } from "./days.js";
import { el } from "./dom.js";
import { Drawer } from "./drawer.js";
import { randomKey } from "./keys.js";
import { Question } from "./question.js";
import { Words } from "./words.js";

const PAGE = 30;
const PAUSE = 200; // milliseconds without a key before a search
const SPOKEN = 10_000; // milliseconds for which an announcement stays
const IS_MAC = /^(Mac|iP)/.test(navigator.platform);
const UUID = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/i;

let made = 0;

/**
 * Events `chatmemory:conversation`, which bubble; `detail` has `action`, `id` and `address` (of its page).
 *
 * "open" and "created" lead to the address, and "erased" too if this is the page of what was erased, unless the page calls
 * `preventDefault()`. "creating" has no ID yet; then comes "created", or "failed". A page that prevents "creating" makes the
 * conversation itself. "renamed" has the `title`.
 */
export class Conversations extends HTMLElement {
  #rows = new Map(); // by ID: the elements, in the order of the list
  #next = null; // the page of the list after those read
  #searched = ""; // what the rows were searched for
  #reading = new AbortController(); // the request whose rows are to be shown
  #typing = 0;
  #midnight = 0;
  #key = null; // of the request that makes a conversation: a second try makes no second one
  #leaving = new AbortController();

  connectedCallback() {
    if (this.words) return; // moved within the page
    this.words = new Words(this);
    this.api = new Api(this, this.words);
    this.number = made += 1;
    this.days = new Days(this.words);
    this.drawer = new Drawer(this);
    this.renaming = new Question(this.part("rename-dialog"), (error) => this.#explain(error, this.part("rename-problem")));
    this.erasing = new Question(this.part("erase-dialog"), (error) => this.#explain(error, this.part("erase-problem")));
    this.#offerNew();
    this.#offerSearch();
    this.part("older").addEventListener("click", () => this.#try(() => this.#showOlder()));
    const { signal } = this.#leaving;
    document.addEventListener("visibilitychange", () => document.hidden || this.refresh(), { signal });
    document.addEventListener("chatmemory:title", ({ detail }) => this.#retitle(detail), { signal });
    document.addEventListener("chatmemory:message", ({ detail }) => this.#moveUp(detail), { signal });
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
    if (id && !this.#rows.has(id) && !this.#searched) this.refresh();
  }

  /** Read the list afresh: what is searched for, and as many as are shown. */
  async refresh() {
    clearTimeout(this.#typing);
    this.#reading.abort();
    this.#reading = new AbortController();
    const { signal } = this.#reading;
    await this.#try(async () => {
      const search = this.part("search").value.trim();
      const isNew = search !== this.#searched;
      const query = new URLSearchParams({ page_size: isNew ? PAGE : Math.max(PAGE, this.#rows.size) });
      if (search) query.set("search", search);
      const page = await this.api.call("GET", `?${query}`, { signal });
      const found = page.results;
      const isMissing = !search && this.current && !found.some(({ id }) => id === this.current);
      if (isMissing) found.push(...(await this.#find(this.current, signal)));
      this.#next = page.next;
      this.#searched = search;
      this.#rows = new Map(found.map((each) => [each.id, this.#row(each)]));
      this.#arrange();
      if (isNew && search) this.#announce(this.#foundText());
    });
  }

  /** Return the element with a `data-part`. */
  part(name) {
    return this.querySelector(`[data-part="${name}"]`);
  }

  addressOf(id) {
    return new URL(this.dataset.page.replace(this.dataset.placeholder, id), location.href).href;
  }

  #offerNew() {
    const button = this.part("new");
    const keys = IS_MAC ? "⇧⌘O" : "Ctrl+Shift+O";
    button.title = `${button.textContent} (${keys})`;
    button.setAttribute("aria-keyshortcuts", IS_MAC ? "Meta+Shift+O" : "Control+Shift+O");
    const create = () => this.#try(() => this.#create());
    button.addEventListener("click", create);
    const press = (event) => {
      const { key, code } = event;
      // Where the keys have no Latin letters, it is the one in the place of O.
      const isO = /^[a-z]$/i.test(key) ? key.toLowerCase() === "o" : code === "KeyO";
      const isMeant = isO && event.shiftKey && !event.altKey && (IS_MAC ? event.metaKey : event.ctrlKey);
      if (!isMeant || event.isComposing || event.defaultPrevented) return; // prevented: by another list
      event.preventDefault();
      if (!event.repeat) create();
    };
    document.addEventListener("keydown", press, { signal: this.#leaving.signal });
  }

  #offerSearch() {
    const field = this.part("search");
    field.addEventListener("input", () => {
      clearTimeout(this.#typing);
      this.#typing = setTimeout(() => this.refresh(), PAUSE);
    });
    field.addEventListener("keydown", (event) => {
      if (event.isComposing || !field.value) return;
      if (event.key === "Escape") field.value = "";
      else if (event.key !== "Enter") return;
      event.preventDefault(); // Escape would close the drawer, too
      this.refresh();
    });
    this.part("drawer").addEventListener("keydown", (event) => {
      if (event.isComposing || !["ArrowDown", "ArrowUp"].includes(event.key)) return;
      const stops = [field, ...this.querySelectorAll('[data-part="open"]')];
      const at = stops.indexOf(event.target);
      const next = at < 0 ? null : stops[at + (event.key === "ArrowDown" ? 1 : -1)];
      if (!next) return;
      event.preventDefault();
      next.focus();
    });
  }

  #foundText() {
    const { size } = this.#rows;
    return size ? this.words.amount(this.#next ? "found-more" : "found", size) : this.part("nothing").textContent;
  }

  async #find(id, signal) {
    try {
      return [await this.api.call("GET", `${encodeURIComponent(id)}/`, { signal })];
    } catch (error) {
      if (error.status === 404) return []; // erased
      throw error;
    }
  }

  /** Put the rows into groups by day, the last active first. What has the focus keeps it. */
  #arrange() {
    const focused = document.activeElement;
    const place = [focused?.closest?.("li")?.dataset.id, focused?.dataset?.part];
    this.#rows = new Map([...this.#rows].sort(([, one], [, other]) => momentOf(other) - momentOf(one)));
    const groups = new Map();
    for (const row of this.#rows.values()) {
      const moment = momentOf(row);
      const name = this.days.nameOf(moment);
      if (!groups.has(name)) groups.set(name, this.#group(name, groups.size));
      groups.get(name).lastChild.append(row);
      const time = row.querySelector("time");
      time.textContent = this.days.timeOf(moment);
      time.title = this.days.wholeOf(moment);
    }
    this.part("list").replaceChildren(...groups.values());
    this.#rows.get(place[0])?.querySelector(`[data-part="${place[1]}"]`).focus({ preventScroll: true });
    const isEmpty = this.#rows.size === 0;
    this.part("empty").hidden = !isEmpty || this.#searched !== "";
    this.part("nothing").hidden = !isEmpty || this.#searched === "";
    this.part("search").hidden = isEmpty && !this.#searched && !this.part("search").value;
    this.part("older").hidden = this.#next === null;
    clearTimeout(this.#midnight);
    this.#midnight = setTimeout(() => this.isConnected && this.#arrange(), this.days.left);
  }

  #group(name, index) {
    const id = `chatmemory-${this.number}-group-${index}`;
    return el("div", {}, el("h3", { id }, name), el("ul", { "aria-labelledby": id }));
  }

  /** Something was said in a conversation: it is the one last active. */
  #moveUp({ id, created_at: moment }) {
    const row = this.#rows.get(id);
    if (!row) return this.#searched || this.refresh();
    if (new Date(moment) <= momentOf(row)) return;
    row.querySelector("time").dateTime = moment;
    this.#arrange();
  }

  #row(conversation) {
    const { id } = conversation;
    const row = this.part("row").content.firstElementChild.cloneNode(true);
    const part = (name) => row.querySelector(`[data-part="${name}"]`);
    row.dataset.id = id;
    part("open").href = this.addressOf(id);
    part("title").textContent = this.#nameOf(conversation);
    part("time").dateTime = conversation.updated_at;
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

  #nameOf({ display_title: title, memory_id: memoryId }) {
    return title || (UUID.test(memoryId) ? this.words.say("untitled") : memoryId);
  }

  async #showOlder() {
    const page = await this.api.call("GET", this.#next, { signal: this.#reading.signal });
    const older = page.results.filter(({ id }) => !this.#rows.has(id));
    this.#next = page.next;
    for (const each of older) this.#rows.set(each.id, this.#row(each));
    this.#arrange();
    if (older.length) this.#rows.get(older[0].id).querySelector("a").focus({ preventScroll: true });
  }

  async #create() {
    const chats = [...document.querySelectorAll("chatmemory-chat")];
    const button = this.part("new");
    if (button.getAttribute("aria-disabled") === "true" || !this.#tell("creating")) return;
    button.setAttribute("aria-disabled", "true");
    this.#key ??= randomKey();
    for (const chat of chats) chat.hold?.();
    try {
      const conversation = await this.api.call("POST", "", { body: {}, key: this.#key });
      this.#key = null;
      this.#rows = new Map([[conversation.id, this.#row(conversation)], ...this.#rows]);
      this.#arrange();
      this.#announce(this.words.say("created"));
      if (this.#searched) {
        this.part("search").value = "";
        this.refresh();
      }
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
      const renamed = await this.api.call("PATCH", `${id}/`, { body: { title: input.value } });
      this.#retitle({ id, title: this.#nameOf(renamed) });
      this.#tell("renamed", id, { title: renamed.title });
    });
    if (isDone) this.#announce(this.words.say("renamed"));
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
    this.#announce(this.words.say("erased"));
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
    const ids = [...this.#rows.keys()];
    const at = ids.indexOf(id);
    const near = ids[at + 1] ?? ids[at - 1];
    this.#rows.delete(id);
    this.#arrange();
    (this.#rows.get(near)?.querySelector("a") ?? this.part("new")).focus();
    return near;
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
    if (["open", "created"].includes(action)) this.drawer.close();
    return this.dispatchEvent(new CustomEvent("chatmemory:conversation", { bubbles: true, cancelable: true, detail }));
  }

  async #try(act) {
    try {
      this.part("problem").hidden = true;
      await act();
    } catch (error) {
      if (error.name !== "AbortError") this.#explain(error);
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

  #announce(text) {
    const line = el("p", {}, text);
    this.part("status").append(line);
    setTimeout(() => line.remove(), SPOKEN);
  }
}

const momentOf = (row) => new Date(row.querySelector("time").dateTime);

function mark(row, isCurrent) {
  if (isCurrent) row.querySelector("a").setAttribute("aria-current", "page");
  else row.querySelector("a").removeAttribute("aria-current");
}

customElements.define("chatmemory-conversations", Conversations);
