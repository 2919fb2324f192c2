// The box to write in, and the buttons that send and stop.

import { isComposing } from "./dom.js";
import { Draft } from "./drafts.js";
import { textOf } from "./messages.js";

const DOUBLE_CLICK = 500; // milliseconds; Stop comes up where Send was

export class Composer {
  #box;
  #send;
  #stop;
  #since = 0; // when the answering began
  #isHeld = false; // what is written is meant for another conversation
  #isHandedOver = false; // and that is there
  #left = ""; // what was written before
  #wantsSending = false; // somebody sent it too early
  #draft;
  #recalled = null; // what was said last, while it stands in the box unchanged

  constructor(panel, turns) {
    this.panel = panel;
    this.turns = turns;
    this.#box = panel.part("message");
    this.#send = panel.part("send");
    this.#stop = panel.part("stop");
    this.#draft = new Draft(panel.root.dataset.conversation);
    this.#box.addEventListener("input", () => {
      this.#recalled = null;
      this.#keep();
    });
    panel.part("composer").addEventListener("submit", (event) => {
      event.preventDefault();
      this.say(this.#box.value);
    });
    this.#box.addEventListener("keydown", (event) => {
      if (isComposing(event) || !this.#press(event)) return;
      event.preventDefault();
    });
    this.#stop.addEventListener("click", ({ detail, timeStamp }) => {
      if (detail > 1 || timeStamp - this.#since < DOUBLE_CLICK) return;
      this.turns.stop();
    });
    turns.addEventListener("busy", () => this.#showBusy());
    turns.addEventListener("write", ({ detail }) => this.#write([detail, this.#box.value].filter(Boolean).join("\n")));
  }

  /** Without a conversation there is nothing to say anything in; what is written stays. */
  set disabled(isDisabled) {
    this.#send.disabled = isDisabled;
  }

  /** Take up what was written, and perhaps sent, before the conversation was there. */
  start() {
    const { text, isToBeSent } = this.#draft.read();
    this.#wantsSending ||= isToBeSent;
    // What is typed while the page loads comes last.
    if (!this.#box.value) this.#box.value = text;
    const wasSent = this.#wantsSending;
    this.#wantsSending = false;
    this.#keep();
    if (wasSent) this.say(this.#box.value);
  }

  say(text) {
    if (this.#isHeld || this.#send.disabled) {
      this.#wantsSending = true;
      this.#keep();
      return;
    }
    this.turns.say(text, () => {
      if (this.#box.value === text) this.#write("");
    });
  }

  hold() {
    if (this.#isHeld) return;
    this.#isHeld = true;
    this.#left = this.#box.value;
    this.#box.value = "";
  }

  release() {
    this.#isHeld = this.#wantsSending = false;
    this.#write(this.#left + this.#box.value);
  }

  handOver(id) {
    this.#draft = new Draft(id);
    this.#isHandedOver = true;
    this.#keep();
  }

  /** Return whether a key did something. */
  #press({ key, shiftKey, ctrlKey, altKey, metaKey }) {
    if (shiftKey) return false;
    if (key === "Enter") this.say(this.#box.value);
    else if (ctrlKey || altKey || metaKey) return false;
    else if (key === "ArrowUp") return this.#recall();
    else if (key === "Escape" || (key === "ArrowDown" && this.#box.selectionStart === this.#box.value.length)) return this.#goBack();
    else return false;
    return true;
  }

  /** Write what was said last into the empty box, to be said again or changed. */
  #recall() {
    const said = this.turns.conversation.history.findLast((item) => item.type === "USER");
    const text = said ? textOf(said) : "";
    if (this.#box.value || !text) return false;
    this.#write(text);
    this.#recalled = this.#box.value; // which has other line breaks
    this.panel.announce(text); // no screen reader reads what a script writes
    return true;
  }

  #goBack() {
    if (!this.#recalled || this.#box.value !== this.#recalled) return false; // sent, say
    this.#write("");
    return true;
  }

  #showBusy() {
    const { isBusy } = this.turns;
    if (isBusy && this.#stop.hidden) this.#since = performance.now();
    const held = [this.#send, this.#stop].includes(document.activeElement);
    this.#send.hidden = isBusy;
    this.#stop.hidden = !isBusy;
    if (held) this.#box.focus(); // the button is hidden, or will be
    this.panel.part("chat-panel").setAttribute("aria-busy", String(isBusy));
  }

  #write(text) {
    this.#box.value = text;
    this.#keep();
  }

  #keep() {
    if (this.#isHeld && !this.#isHandedOver) return;
    this.#draft.keep(this.#box.value, this.#wantsSending);
  }
}
