// Changing a question where it stands: its bubble becomes a box to write in.

import { el, isComposing } from "./dom.js";
import { textOf } from "./messages.js";

export class Editing {
  #form = null;
  #box;
  #position; // of the question
  #isSent = false;

  /** `noticesAt(position)` returns where to tell of problems with a message. */
  constructor(panel, history, turns, noticesAt) {
    this.panel = panel;
    this.history = history;
    this.turns = turns;
    this.noticesAt = noticesAt;
    history.extend((element, item) => this.#form && item.position === this.#position && this.#moveTo(element));
    history.addEventListener("shown", () => this.#form && !this.#form.isConnected && this.#leave());
  }

  open(position) {
    if (this.turns.isBusy) return;
    this.#close();
    const item = this.turns.conversation.history.find((each) => each.position === position);
    this.#position = position;
    this.#draw(textOf(item));
    this.#moveTo(this.history.element(position));
    this.#box.focus();
    this.#form.scrollIntoView({ block: "nearest" });
  }

  #draw(text) {
    const { words } = this.panel;
    this.#box = el("textarea", { rows: "1", dir: "auto", autocomplete: "off", "aria-label": words.say("edit-message") });
    this.#box.value = text;
    const cancel = el("button", { type: "button" }, words.say("cancel"));
    const send = el("button", { type: "submit", class: "chatmemory-primary" }, words.say("send"));
    const buttons = el("div", { class: "chatmemory-editing-buttons" }, cancel, send);
    this.#form = el("form", { class: "chatmemory-editing" }, this.#box, buttons);
    cancel.addEventListener("click", () => this.#cancel());
    this.#form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#send();
    });
    this.#box.addEventListener("keydown", (event) => {
      if (isComposing(event) || event.shiftKey || !["Enter", "Escape"].includes(event.key)) return;
      event.preventDefault();
      if (event.key === "Enter") this.#send();
      else this.#cancel();
    });
  }

  async #send() {
    if (this.#isSent) return;
    this.#isSent = this.#box.readOnly = true;
    const box = this.#box;
    await this.turns.edit(this.#position, box.value, this.noticesAt(this.#position));
    this.#isSent = box.readOnly = false;
  }

  #cancel() {
    if (this.#isSent) return; // to stop it is another button
    this.#close();
    this.history.element(this.#position)?.querySelector(".is-edit")?.focus({ preventScroll: true });
  }

  #close() {
    this.#form?.parentElement?.classList.remove("is-edited");
    this.#form?.remove();
    this.#form = null;
  }

  /** Show the form in another element of the same message: it was drawn again. */
  #moveTo(element) {
    const isFocused = this.#form.contains(document.activeElement);
    element.classList.add("is-edited");
    element.append(this.#form);
    if (isFocused) queueMicrotask(() => this.#box.focus({ preventScroll: true }));
  }

  /** The message is no longer on the page: it was sent, or the conversation is on another branch. */
  #leave() {
    const { value } = this.#box;
    this.#close();
    if (this.#isSent) document.activeElement === document.body && this.panel.part("message").focus({ preventScroll: true });
    else this.turns.dispatchEvent(new CustomEvent("write", { detail: value }));
  }
}
