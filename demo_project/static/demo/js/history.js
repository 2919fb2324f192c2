// The chat as its user sees it: every message, in pages, newest at the end.

import { byId, el } from "./dom.js";
import { Following } from "./following.js";
import { nameOf, reasonOf, textOf } from "./words.js";

export class History {
  #list = byId("history");
  #scroller = byId("scroller");
  #end = new Following(this.#scroller);
  #older = byId("older");
  #answering = byId("answering");
  #reading = false;

  constructor(conversation, onProblem) {
    this.conversation = conversation;
    this.onProblem = onProblem;
    conversation.addEventListener("loaded", () => this.#showAll());
    conversation.addEventListener("changed", ({ detail }) => this.#change(detail));
    this.#older.addEventListener("click", () => this.#showOlder());
    new IntersectionObserver(([entry]) => entry.isIntersecting && this.#showOlder(), {
      root: this.#scroller,
      rootMargin: "200px 0px 0px",
    }).observe(this.#older);
  }

  /** Show more of the answer that is being made; an empty text is the wait for it. */
  showAnswering(text) {
    this.#answering.hidden = false;
    if (text) this.#answering.replaceChildren(el("p", { class: "bubble", dir: "auto" }, text));
    else this.#answering.replaceChildren(el("p", { class: "bubble waiting" }, el("span", {}, "Answering …")));
    if (this.#end.isOn) this.#end.toEnd();
  }

  hideAnswering() {
    this.#answering.hidden = true;
    this.#answering.replaceChildren();
  }

  #showAll() {
    this.#list.replaceChildren(...this.conversation.history.map((item) => this.#bubble(item)));
    this.#updateEdges();
    if (this.#end.isOn) this.#end.toEnd();
  }

  #change({ added, evicted }) {
    for (const item of evicted) this.#list.querySelector(`[data-position="${item.position}"]`)?.replaceWith(this.#bubble(item));
    const said = added.filter((item) => !item.synthetic); // a question that is asked again is there already
    this.#list.append(...said.map((item) => this.#bubble(evicted.find((gone) => gone.position === item.position) ?? item)));
    this.#updateEdges();
    if (this.#end.isOn || added.some((item) => item.type === "USER")) this.#end.toEnd(true);
  }

  async #showOlder() {
    if (this.#reading || !this.conversation.hasOlder) return;
    this.#reading = true;
    try {
      const items = await this.conversation.readOlder();
      const { scrollHeight, scrollTop } = this.#scroller;
      this.#list.prepend(...items.map((item) => this.#bubble(item)));
      this.#updateEdges();
      this.#scroller.scrollTop = scrollTop + this.#scroller.scrollHeight - scrollHeight;
    } catch (error) {
      this.onProblem(error);
    } finally {
      this.#reading = false;
    }
  }

  #bubble(item) {
    return bubble(item, this.conversation.isSummarised(item));
  }

  #updateEdges() {
    this.#older.hidden = !this.conversation.hasOlder;
    byId("welcome").hidden = this.conversation.history.some((item) => item.type !== "SYSTEM");
  }
}

function bubble(item, isSummarised) {
  const said = item.type === "USER" || item.type === "AI";
  const text = textOf(item);
  const children = [];
  if (item.type === "SYSTEM") {
    children.push(el("details", {}, el("summary", {}, "Instructions to the model"), el("p", { dir: "auto" }, text)));
  } else if (said && text) {
    // The name stays outside the paragraph, whose first letter decides the direction of its text.
    children.push(el("span", { class: "unseen" }, `${nameOf(item)}: `), el("p", { class: "bubble", dir: "auto" }, text));
  } else if (item.type !== "AI") {
    children.push(el("p", { class: "tool" }, el("code", {}, item.message.toolName ?? "message"), " ", el("bdi", {}, text)));
  }
  const { cut_off: cutOff } = item.message.attributes ?? {};
  if (cutOff) children.push(el("p", { class: "gone" }, `Cut off: ${cutOff}`));
  const gone = item.state === "evicted";
  if (gone && children.length) children.push(el("p", { class: "gone" }, isSummarised ? "Summarised" : whyGone(item)));
  // A tool call without text is not shown here: its result is, and the memory panel shows the call.
  const silent = children.length === 0;
  return el("li", { class: `said ${item.type.toLowerCase()}${gone ? " is-gone" : ""}`, "data-position": item.position, hidden: silent }, ...children);
}

const whyGone = (item) => (item.reason === "window" ? "Forgotten" : `Forgotten: ${reasonOf(item)}`);
