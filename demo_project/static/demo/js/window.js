// The window: a gauge of how full it is, and the controls that change it at once.

import { byId, count, plural, svg } from "./dom.js";

const STEPS = { messages: { least: 4, most: 24, step: 1 }, tokens: { least: 80, most: 2000, step: 20 } };

export class WindowControls {
  #limit = byId("limit");
  #kinds = [...document.querySelectorAll("[name=window]")];
  #trial = null;
  #last = Promise.resolve();
  #pending = 0; // changes that are on their way
  #moving = false; // somebody is dragging the slider
  #limits = {}; // the last one of each kind

  constructor(conversation, onTrial, onProblem) {
    this.conversation = conversation;
    this.onTrial = onTrial;
    this.onProblem = onProblem;
    for (const event of ["loaded", "changed"]) conversation.addEventListener(event, () => this.#show());
    this.#limit.addEventListener("input", () => this.#try());
    for (const event of ["pointerup", "blur"]) this.#limit.addEventListener(event, () => (this.#moving = false));
    this.#limit.addEventListener("change", () => this.#set(this.#kind, Number(this.#limit.value)));
    for (const radio of this.#kinds) radio.addEventListener("change", () => this.#set(this.#kind, this.#roomy(this.#kind)));
  }

  get #kind() {
    return this.#kinds.find((radio) => radio.checked).value;
  }

  /** Return the last limit of this kind, or one that evicts nothing yet. */
  #roomy(kind) {
    const { least, step } = STEPS[kind];
    const used = this.conversation.memory[kind] + (kind === "tokens" ? step : 0);
    return Math.max(least, Math.ceil(used / step) * step, this.#limits[kind] ?? 0);
  }

  #show() {
    const { window: kind, limit, [kind]: used } = this.conversation.memory;
    // Never move a slider that somebody is dragging.
    if (!this.#pending && !this.#moving) this.#showControls(kind, limit);
    const amount = `${count(used)} of ${plural(limit, kind.slice(0, -1))}`;
    const percent = Math.floor((used / limit) * 100);
    byId("gauge-amount").textContent = amount;
    byId("gauge-share").textContent = used > limit ? `${count(percent)} percent: over its limit` : `${percent} percent full`;
    byId("tab-count").textContent = `${count(used)}/${count(limit)}`;
    this.#showBar(kind, limit);
  }

  #showControls(kind, limit) {
    const { least, most, step } = STEPS[kind];
    this.#limits[kind] = limit;
    for (const radio of this.#kinds) radio.checked = radio.value === kind;
    this.#limit.min = Math.min(least, limit);
    this.#limit.max = Math.max(most, limit);
    this.#limit.step = limit % step || limit < least ? 1 : step;
    this.#limit.value = limit;
    this.#showLimit(limit);
    this.#showTrial(0);
  }

  /** Draw the bar, with one stretch for each message. */
  #showBar(kind, limit) {
    const { kept } = this.conversation;
    const sizes = kept.map((item) => (kind === "messages" ? 1 : (item.token_count ?? 0)));
    const whole = Math.max(limit, sizes.reduce((sum, size) => sum + size, 0));
    let start = 0;
    const stretches = kept.map((item, index) => {
      const width = (sizes[index] / whole) * 1000;
      const gap = Math.min(4, width / 4);
      const stretch = svg("rect", { x: start, y: 0, width: Math.max(0, width - gap), height: 10, class: item.type.toLowerCase() });
      start += width;
      return stretch;
    });
    byId("gauge-bar").replaceChildren(...stretches);
  }

  #showLimit(limit) {
    byId("limit-shown").textContent = plural(limit, this.#kind.slice(0, -1));
    this.#limit.setAttribute("aria-valuetext", plural(limit, this.#kind.slice(0, -1)));
  }

  async #try() {
    this.#moving = true;
    this.#trial?.abort();
    this.#trial = new AbortController();
    const { signal } = this.#trial;
    const limit = Number(this.#limit.value);
    this.#showLimit(limit);
    try {
      const { evicted } = await this.conversation.tryWindow(this.#kind, limit, signal);
      this.onTrial(evicted.map((item) => item.position));
      this.#showTrial(evicted.length);
    } catch (error) {
      if (error.name !== "AbortError") this.onProblem(error);
    }
  }

  #showTrial(evicted) {
    const line = byId("preview");
    line.textContent = evicted ? `Would forget ${plural(evicted, "message")}` : "The window is what the model is given. A smaller one forgets the oldest messages at once.";
    line.classList.toggle("would-forget", evicted > 0);
  }

  #set(kind, limit) {
    this.#trial?.abort();
    this.#moving = false;
    this.#pending += 1;
    // One after the other, so that the last one wins.
    this.#last = this.#last
      .then(() => this.conversation.setWindow(kind, limit))
      .catch(this.onProblem)
      .finally(() => {
        this.#pending -= 1;
        this.#show();
      });
  }
}
