// The memory panel: what the model gets now. Evicted messages are marked, then leave with a transition.

import { card } from "./card.js";
import { calm } from "./dom.js";
import { Following } from "./following.js";

const SHOWN = 1100; // milliseconds for which a card shows why it leaves
const LEAVING = 500; // as long as the transition in memory.css

export class Memory {
  #list;
  #end;
  #leaving = []; // evicted messages whose cards are still there
  #isLeaving = false;

  constructor(panel, conversation) {
    this.panel = panel;
    this.conversation = conversation;
    this.#list = panel.part("retained");
    this.#end = new Following(panel.part("memory-scroller"));
    conversation.addEventListener("loaded", () => this.#showAll());
    conversation.addEventListener("changed", ({ detail }) => this.#change(detail));
    // A hidden list has no size, so only now can be measured which texts are too long.
    new ResizeObserver(() => this.#offerTheRest()).observe(this.#list);
  }

  /** Mark the messages that another window would forget, and bring them in sight. */
  preview(positions) {
    const leaving = new Set(positions);
    for (const entry of this.#list.children) entry.classList.toggle("would-leave", leaving.has(Number(entry.dataset.position)));
    const marked = this.#list.querySelector(".would-leave");
    if (marked && this.#end.isOn) this.#end.glanceAt(marked);
    else if (!marked) this.#follow(true);
  }

  #showAll() {
    this.#list.replaceChildren(...this.conversation.kept.map((item) => card(item, this.panel.words)));
    this.#updateEdges();
    this.#follow();
  }

  #change({ added, evicted }) {
    for (const entry of this.#list.children) entry.classList.remove("would-leave");
    const kept = new Set(this.conversation.kept.map((item) => item.position));
    const fresh = added.filter((item) => kept.has(item.position) || evicted.some((gone) => gone.position === item.position));
    const entries = fresh.map((item) => card(item, this.panel.words));
    for (const entry of entries) {
      entry.classList.add("is-new");
      entry.addEventListener("animationend", () => entry.classList.remove("is-new"), { once: true });
    }
    this.#list.append(...entries);
    this.#updateEdges();
    this.#leaving.push(...evicted);
    if (evicted.length) this.panel.announce(this.panel.words.amount("forgotten-messages", evicted.length));
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
    const { words } = this.panel;
    const entries = evicted.map((item) => [item, this.#list.querySelector(`[data-position="${item.position}"]`)]);
    const leaving = entries.filter(([, entry]) => entry);
    for (const [item, entry] of leaving) {
      entry.classList.add("is-leaving");
      entry.querySelector(".chatmemory-why").textContent = words.say("forgotten-why", { reason: words.reason(item) });
    }
    if (this.#end.isOn && leaving.length) this.#end.glanceAt(leaving[0][1]);
    await wait(SHOWN);
    for (const [, entry] of leaving) entry.classList.add("is-left");
    await wait(calm() ? 0 : LEAVING);
    for (const [, entry] of leaving) entry.remove();
  }

  #updateEdges() {
    const { forgotten, kept, summary } = this.conversation;
    const line = this.panel.part("forgotten");
    line.hidden = forgotten === 0;
    line.textContent = this.panel.words.amount(summary ? "older-summarised" : "older-forgotten", forgotten);
    this.panel.part("memory-empty").hidden = kept.length > 0;
  }

  #offerTheRest() {
    let grows = false;
    for (const text of this.#list.querySelectorAll(".chatmemory-text:not(.is-whole)")) {
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
