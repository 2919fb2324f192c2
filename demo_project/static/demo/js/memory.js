// What the model gets now. What is evicted is marked, and then seen to leave.

import { announce, byId, calm, count, el, plural } from "./dom.js";
import { callsOf, nameOf, reasonOf, textOf } from "./words.js";

const SHOWN = 1100; // milliseconds that a card says why it leaves
const LEAVING = 500; // as long as the transition in memory.css

export class Memory {
  #list = byId("retained");
  #scroller = byId("memory-scroller");

  constructor(conversation) {
    this.conversation = conversation;
    conversation.addEventListener("loaded", () => this.#showAll());
    conversation.addEventListener("changed", ({ detail }) => this.#change(detail));
  }

  /** Mark the messages that another window would forget. */
  preview(positions) {
    for (const entry of this.#list.children) {
      entry.classList.toggle("would-leave", positions.includes(Number(entry.dataset.position)));
    }
  }

  #showAll() {
    this.#list.replaceChildren(...this.conversation.kept.map(card));
    this.#updateEdges();
    this.#toEnd();
  }

  #change({ added, evicted }) {
    this.preview([]);
    const kept = new Set(this.conversation.kept.map((item) => item.position));
    const fresh = added.filter((item) => kept.has(item.position) || evicted.some((gone) => gone.position === item.position));
    this.#list.append(...fresh.map(card));
    this.#updateEdges();
    if (evicted.length) this.#forget(evicted);
    else this.#toEnd(true);
  }

  async #forget(evicted) {
    const entries = evicted.map((item) => [item, this.#list.querySelector(`[data-position="${item.position}"]`)]);
    const leaving = entries.filter(([, entry]) => entry);
    for (const [item, entry] of leaving) {
      entry.classList.add("leaves");
      entry.querySelector(".why").textContent = `Forgotten: ${reasonOf(item)}`;
    }
    announce(`${plural(evicted.length, "message")} forgotten`);
    leaving[0]?.[1].scrollIntoView({ block: "nearest", behavior: calm() ? "instant" : "smooth" });
    await wait(SHOWN);
    for (const [, entry] of leaving) entry.classList.add("left");
    await wait(calm() ? 0 : LEAVING);
    for (const [, entry] of leaving) entry.remove();
    this.#toEnd(true);
  }

  #updateEdges() {
    const { forgotten, kept } = this.conversation;
    byId("forgotten").hidden = forgotten === 0;
    byId("forgotten").textContent = `${plural(forgotten, "older message")} forgotten`;
    byId("memory-empty").hidden = kept.length > 0;
  }

  #toEnd(smooth = false) {
    this.#scroller.scrollTo({ top: this.#scroller.scrollHeight, behavior: smooth && !calm() ? "smooth" : "instant" });
  }
}

const wait = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

function card(item) {
  const tool = item.type === "TOOL_EXECUTION_RESULT" ? item.message.toolName : null;
  const tokens = item.token_count === null ? "from a rewrite" : `${count(item.token_count)} tokens`;
  const text = textOf(item);
  return el(
    "li",
    { class: `entry ${item.type.toLowerCase()}`, "data-position": item.position },
    el(
      "div",
      { class: "card" },
      el("p", { class: "facts" }, el("strong", {}, nameOf(item)), tool && el("code", {}, tool), el("span", {}, tokens)),
      text ? el("p", { class: "text", dir: "auto" }, text) : null,
      ...callsOf(item).map((call) => el("p", { class: "call" }, el("span", { class: "unseen" }, "calls "), el("code", {}, call))),
      el("p", { class: "why" }),
    ),
  );
}
