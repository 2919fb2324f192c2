// The window: a gauge of how full it is, and the controls that change it at once.

import { svg } from "./dom.js";

const STEPS = { messages: { least: 4, most: 24, step: 1 }, tokens: { least: 80, most: 2000, step: 20 } };

export class WindowControls {
  #limit;
  #kinds;
  #trial = null;
  #last = Promise.resolve();
  #pending = 0; // changes that are on their way
  #moving = false; // somebody is dragging the slider
  #limits = {}; // the last one of each kind
  #reach = {}; // where the slider of each kind ends

  constructor(panel, conversation, onTrial) {
    this.panel = panel;
    this.words = panel.words;
    this.conversation = conversation;
    this.onTrial = onTrial;
    this.onProblem = (error) => panel.showError(error);
    this.#limit = panel.part("limit");
    this.#kinds = [...panel.part("window").querySelectorAll("[type=radio]")];
    for (const event of ["loaded", "changed"]) conversation.addEventListener(event, () => this.#show());
    if (!this.#limit) return; // its user may not change the window
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
    if (this.#limit && !this.#pending && !this.#moving) this.#showControls(kind, limit);
    const percent = this.words.number(Math.floor((used / limit) * 100));
    this.panel.part("gauge-amount").textContent = this.words.say("used-of", { used: this.words.number(used), limit: this.#amount(kind, limit) });
    this.panel.part("gauge-share").textContent = this.words.say(used > limit ? "too-full" : "full", { percent });
    this.panel.part("tab-count").textContent = `${this.words.number(used)}/${this.words.number(limit)}`;
    this.#showBar(kind, limit);
  }

  #showControls(kind, limit) {
    const { least, most, step } = STEPS[kind];
    this.#limits[kind] = limit;
    for (const radio of this.#kinds) radio.checked = radio.value === kind;
    this.#limit.min = Math.min(least, limit);
    // A window can always be made larger, also again after it was made smaller.
    this.#reach[kind] = Math.max(this.#reach[kind] ?? most, 2 * limit);
    this.#limit.max = this.#reach[kind];
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
      const stretch = svg("rect", { x: start, y: 0, width: Math.max(0, width - gap), height: 10, "data-type": item.type.toLowerCase() });
      start += width;
      return stretch;
    });
    this.panel.part("gauge-bar").replaceChildren(...stretches);
  }

  #showLimit(limit) {
    const amount = this.#amount(this.#kind, limit);
    this.panel.part("limit-shown").textContent = amount;
    this.#limit.setAttribute("aria-valuetext", amount);
  }

  #amount(kind, number) {
    return this.words.amount(kind, number);
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
    const line = this.panel.part("preview");
    line.textContent = evicted ? this.words.amount("would-forget", evicted) : this.words.say("what-a-window-is");
    line.classList.toggle("is-warning", evicted > 0);
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
