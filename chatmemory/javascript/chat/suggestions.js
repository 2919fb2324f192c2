// Suggestions of what to say: those that were said make room for others.

import { textOf } from "./messages.js";

const SHOWN = 4;

export class Suggestions {
  #place;
  #buttons;

  constructor(panel, conversation, say) {
    this.#place = panel.part("suggestions");
    this.#buttons = [...(this.#place?.querySelectorAll("button") ?? [])];
    for (const button of this.#buttons) button.addEventListener("click", () => say(button.textContent));
    if (!this.#buttons.length) return;
    for (const event of ["loaded", "changed"]) conversation.addEventListener(event, () => this.#show(conversation));
  }

  /** Show the first ones that nobody has said; those for later only when the model has forgotten something. */
  #show({ history, forgotten }) {
    const said = new Set(history.filter((item) => item.type === "USER").map(textOf));
    const fitting = this.#buttons.filter((button) => !said.has(button.textContent) && (forgotten || button.dataset.when !== "forgotten"));
    for (const button of this.#buttons) button.hidden = !fitting.slice(0, SHOWN).includes(button);
    this.#place.hidden = fitting.length === 0;
  }
}
