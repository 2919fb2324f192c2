// The chat as its user sees it: every message, in pages, newest at the end.

import { bubble, drawn, grow } from "./bubble.js";
import { el } from "./dom.js";
import { Following } from "./following.js";
import { PIECE } from "./long_text.js";
import { Newest } from "./newest.js";
import { Notices } from "./notices.js";

const MOST_READ = 5_000; // messages to read at most, to show one further up
const AT_ONCE = 200;

/** Dispatches `shown` when messages have been drawn. */
export class History extends EventTarget {
  #list;
  #scroller;
  #end;
  #older;
  #olderNotices;
  #answering;
  #text = ""; // of the answer that is being made
  #frame = 0;
  #reading = null;
  #cutAt = -1;
  #extensions = []; // functions of other scripts, called with each message that is shown

  constructor(panel, conversation) {
    super();
    this.panel = panel;
    this.conversation = conversation;
    this.#list = panel.part("history");
    this.#scroller = panel.part("scroller");
    this.#older = panel.part("older");
    this.#answering = panel.part("answering");
    this.#end = new Following(this.#scroller);
    this.#olderNotices = new Notices(panel, "older-");
    new Newest(panel, this.#end);
    conversation.addEventListener("loaded", () => this.#showAll());
    conversation.addEventListener("changed", ({ detail }) => this.#change(detail));
    this.#older.addEventListener("click", () => this.#showOlder());
    new IntersectionObserver(([entry]) => entry.isIntersecting && this.#showOlder(), {
      root: this.#scroller,
      rootMargin: "200px 0px 0px",
    }).observe(this.#older);
  }

  /** Show more of the answer that is being made; an empty text is the wait for it. */
  showAnswering(text, { isThinking = false } = {}) {
    this.#text = text;
    if (text) this.#frame ||= requestAnimationFrame(() => this.#drawAnswering());
    else {
      if (this.#words) this.hideAnswering();
      this.showState(this.panel.words.say(isThinking ? "thinking" : "answering"));
    }
  }

  /** Tell how it stands with the answer, below the words of it that are there. */
  showState(text) {
    if (this.#frame) this.#drawAnswering();
    const shown = this.#answering.querySelector(".chatmemory-waiting span");
    const kind = this.#words ? "chatmemory-waiting" : "chatmemory-waiting chatmemory-bubble";
    if (shown) shown.textContent = text;
    else this.#answering.append(el("p", { class: kind }, el("span", {}, text)));
    this.#showAtEnd();
  }

  hideAnswering() {
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    this.#answering.hidden = true;
    this.#answering.replaceChildren();
  }

  /** Stay at the end when there is more below, unless somebody reads further up. */
  keepAtEnd() {
    if (this.#end.isOn) this.#end.toEnd();
  }

  /** Return the element of a message; null if it is not shown. */
  element(position) {
    return this.#list.querySelector(`[data-position="${position}"]`);
  }

  /** Hide what is below a message, until something else comes there or `uncut()`. */
  cut(position) {
    this.#cutAt = position;
    for (const each of this.#list.children) each.classList.toggle("is-beyond", Number(each.dataset.position) > position);
    this.#end.toEnd();
  }

  /** Show again what `cut()` has hidden, if nothing else came. */
  async uncut() {
    const hidden = [...this.#list.querySelectorAll(".is-beyond")];
    const show = () => hidden.forEach((each) => each.classList.remove("is-beyond"));
    if (hidden.length) await this.keepInPlace(() => this.element(this.#cutAt), show);
  }

  /** Do something that draws messages, and keep where it is what `find` finds before and after it. */
  async keepInPlace(find, act) {
    const element = find();
    const place = element && this.#end.placeOf(element);
    await act();
    const found = find();
    if (found && place) this.#end.put(found, place);
  }

  get #words() {
    return this.#answering.querySelector(".chatmemory-markdown");
  }

  #drawAnswering() {
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    // The whole of it is shown when it is there.
    const text = this.#text.slice(0, PIECE);
    const shown = this.#words;
    shown?.nextElementSibling?.remove(); // it goes on
    // What is there may be selected, or have a button that is about to be pressed.
    if (shown) grow(shown, text, this.panel.words);
    else this.#answering.replaceChildren(drawn(text, this.panel.words));
    this.#showAtEnd();
    this.#end.grew();
  }

  #showAtEnd() {
    this.#answering.hidden = false;
    this.keepAtEnd();
  }

  #showAll() {
    this.#list.replaceChildren(...this.conversation.history.map((item) => this.#bubble(item)));
    this.#updateEdges();
    if (this.#end.isOn) this.#end.toEnd();
  }

  #change({ added, evicted }) {
    for (const item of evicted) this.element(item.position)?.replaceWith(this.#bubble(item));
    const said = added.filter((item) => !item.synthetic); // a question that is asked again is there already
    this.#list.append(...said.map((item) => this.#bubble(evicted.find((gone) => gone.position === item.position) ?? item)));
    this.#updateEdges();
    if (this.#end.isOn || added.some((item) => item.type === "USER")) this.#end.toEnd(true);
    if (said.length) this.#end.grew();
  }

  /** Scroll to a message and return its element; null if it is not there, or too far up. */
  async show(position) {
    const find = () => this.element(position);
    if (this.conversation.oldest - position > MOST_READ) return null;
    while (!find() && position < this.conversation.oldest) if (!(await this.#showOlder(AT_ONCE))) return null;
    const found = find();
    if (found) this.#end.goTo(found);
    return found;
  }

  /** Return whether there were older messages. */
  #showOlder(count) {
    this.#reading ??= this.#readOlder(count).finally(() => (this.#reading = null));
    return this.#reading;
  }

  async #readOlder(count) {
    if (!this.conversation.hasOlder) return false;
    this.#olderNotices.hide();
    try {
      const items = await this.conversation.readOlder(count);
      const { scrollHeight, scrollTop } = this.#scroller;
      this.#list.prepend(...items.map((item) => this.#bubble(item)));
      this.#updateEdges();
      this.#scroller.scrollTop = scrollTop + this.#scroller.scrollHeight - scrollHeight;
      return true;
    } catch (error) {
      this.#olderNotices.showError(error);
      return false;
    }
  }

  /** Call `extend(element, item)` with each message, shown now or later. */
  extend(extend) {
    this.#extensions.push(extend);
    const isAtEnd = this.#end.isOn;
    for (const item of this.conversation.history) {
      const element = this.element(item.position);
      if (element) extend(element, item);
    }
    queueMicrotask(() => isAtEnd && this.#end.toEnd()); // after those of the function
  }

  #bubble(item) {
    const element = bubble(item, this.panel.words, this.conversation.isSummarised(item));
    for (const extend of this.#extensions) extend(element, item);
    return element;
  }

  #updateEdges() {
    this.#older.hidden = !this.conversation.hasOlder;
    this.panel.part("welcome").hidden = this.conversation.history.some((item) => item.type !== "SYSTEM");
    const legend = this.panel.part("legend");
    if (legend) legend.hidden = !this.conversation.forgotten;
    this.#markUnanswered();
    this.dispatchEvent(new Event("shown"));
  }

  /** Say so at each question after which the next one was said. */
  #markUnanswered() {
    const { history } = this.conversation;
    const isUnanswered = (item, next) => item.type === "USER" && next?.type === "USER" && next.position === item.position + 1;
    for (const item of history.filter((each, index) => isUnanswered(each, history[index + 1]))) {
      const shown = this.element(item.position);
      if (shown.querySelector(".chatmemory-unanswered")) continue;
      shown.append(el("p", { class: "chatmemory-unanswered chatmemory-quiet" }, this.panel.words.say("unanswered")));
    }
  }
}
