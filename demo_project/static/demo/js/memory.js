// The memory panel: what the model gets now. Evicted messages are marked, then leave with a transition.

import { announce, byId, calm, count, el, plural } from "./dom.js";
import { Following } from "./following.js";
import { callsOf, kindOf, nameOf, reasonOf, standsFor, textOf } from "./words.js";

const SHOWN = 1100; // milliseconds for which a card shows why it leaves
const LEAVING = 500; // as long as the transition in memory.css

export class Memory {
  #list = byId("retained");
  #end = new Following(byId("memory-scroller"));
  #leaving = []; // evicted messages whose cards are still there
  #isLeaving = false;

  constructor(conversation) {
    this.conversation = conversation;
    conversation.addEventListener("loaded", () => this.#showAll());
    conversation.addEventListener("changed", ({ detail }) => this.#change(detail));
    // A hidden list has no size, so only now can be measured which texts are too long.
    new ResizeObserver(() => this.#offerTheRest()).observe(this.#list);
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
    this.#follow();
  }

  #change({ added, evicted }) {
    this.preview([]);
    const kept = new Set(this.conversation.kept.map((item) => item.position));
    const fresh = added.filter((item) => kept.has(item.position) || evicted.some((gone) => gone.position === item.position));
    const entries = fresh.map(card);
    for (const entry of entries) {
      entry.classList.add("new");
      entry.addEventListener("animationend", () => entry.classList.remove("new"), { once: true });
    }
    this.#list.append(...entries);
    this.#updateEdges();
    this.#leaving.push(...evicted);
    if (evicted.length) announce(`${plural(evicted.length, "message")} forgotten`);
    if (this.#leaving.length) this.#forgetAll();
    else this.#follow(true);
  }

  /** Remove the evicted cards, one batch after the other, so that each is seen. */
  async #forgetAll() {
    if (this.#isLeaving) return;
    this.#isLeaving = true;
    while (this.#leaving.length) await this.#forget(this.#leaving.splice(0));
    this.#isLeaving = false;
    this.#follow(true);
  }

  async #forget(evicted) {
    const entries = evicted.map((item) => [item, this.#list.querySelector(`[data-position="${item.position}"]`)]);
    const leaving = entries.filter(([, entry]) => entry);
    for (const [item, entry] of leaving) {
      entry.classList.add("leaves");
      entry.querySelector(".why").textContent = `Forgotten: ${reasonOf(item)}`;
    }
    if (this.#end.isOn && leaving.length) this.#end.glanceAt(leaving[0][1]);
    await wait(SHOWN);
    for (const [, entry] of leaving) entry.classList.add("left");
    await wait(calm() ? 0 : LEAVING);
    for (const [, entry] of leaving) entry.remove();
  }

  #updateEdges() {
    const { forgotten, kept, summary } = this.conversation;
    byId("forgotten").hidden = forgotten === 0;
    byId("forgotten").textContent = `${plural(forgotten, "older message")} ${summary ? "forgotten or summarised" : "forgotten"}`;
    byId("memory-empty").hidden = kept.length > 0;
  }

  #offerTheRest() {
    let grows = false;
    for (const text of this.#list.querySelectorAll(".text:not(.whole)")) {
      const button = text.nextElementSibling;
      const fits = text.scrollHeight <= text.clientHeight;
      grows ||= button.hidden !== fits;
      button.hidden = fits;
    }
    if (grows) this.#follow();
  }

  /** Scroll to the end, but not while evicted cards are being shown. */
  #follow(smooth = false) {
    if (this.#end.isOn && !this.#isLeaving) this.#end.toEnd(smooth);
  }
}

const wait = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

function card(item) {
  const tool = item.type === "TOOL_EXECUTION_RESULT" ? item.message.toolName : null;
  const tokens = item.token_count === null ? "from a rewrite" : `${count(item.token_count)} tokens`;
  const text = textOf(item);
  return el(
    "li",
    { class: `entry ${kindOf(item)}`, "data-position": item.position },
    el(
      "div",
      { class: "card" },
      el("p", { class: "facts" }, el("strong", {}, nameOf(item)), tool && el("code", {}, tool), el("span", {}, tokens)),
      item.origin === "summary" ? el("p", { class: "stands-for" }, standsFor(item)) : null,
      ...(text ? clamped(text) : []),
      ...callsOf(item).map((call) => el("p", { class: "call" }, el("span", { class: "unseen" }, "calls "), el("code", {}, call))),
      el("p", { class: "why" }),
    ),
  );
}

/** Return a text cut to a few lines, and a button that shows all of it. */
function clamped(text) {
  const shown = el("p", { class: "text", dir: "auto" }, text);
  const button = el("button", { type: "button", class: "link", "aria-expanded": "false", hidden: true }, "Show all");
  button.addEventListener("click", () => {
    const whole = shown.classList.toggle("whole");
    button.textContent = whole ? "Show less" : "Show all";
    button.setAttribute("aria-expanded", String(whole));
  });
  return [shown, button];
}
