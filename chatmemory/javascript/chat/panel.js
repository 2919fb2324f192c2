// What all parts of one chat share: its element, its texts, its connection, and where it tells of problems.

import { Api } from "./api.js";
import { el } from "./dom.js";
import { Words } from "./words.js";

const SPOKEN = 10_000; // milliseconds for which an announcement stays

export class Panel {
  #open = new AbortController();

  constructor(root) {
    this.root = root;
    this.words = new Words(root);
    this.api = new Api(root, this.words);
  }

  /** Ends when the chat leaves the page. */
  get signal() {
    return this.#open.signal;
  }

  close() {
    this.#open.abort();
  }

  /** Return the element of this chat, and of no other, with a `data-part`. */
  part(name) {
    return this.root.querySelector(`[data-part="${name}"]`);
  }

  /** Announce a text to screen readers, after those announced just before. */
  announce(text) {
    const line = el("p", {}, text);
    this.part("status").append(line);
    setTimeout(() => line.remove(), SPOKEN);
  }

  /** Show an error, and offer to try again if that can help. */
  showError(error, again = null) {
    if (error.isSignedOut) {
      const { signIn } = this.root.dataset;
      const address = signIn && `${signIn}?next=${encodeURIComponent(location.pathname + location.search)}`;
      this.#show("problem", this.words.say("signed-out"), {
        link: address && el("a", { href: address }, this.words.say("sign-in")),
      });
    } else this.#show("problem", error.message, { action: again && this.words.say("try-again"), act: again });
  }

  /** Tell what is no error, with a button for what one may do about it. */
  showNotice(text, { action = null, act = null } = {}) {
    this.#show("notice", text, { action, act });
  }

  hideMessages() {
    for (const name of ["problem", "notice"]) {
      this.part(name).hidden = true;
      this.part(name).replaceChildren();
    }
  }

  #show(name, text, { action = null, act = null, link = null }) {
    this.hideMessages();
    const button = action && el("button", { type: "button" }, action);
    button?.addEventListener("click", () => {
      this.part("message").focus(); // the button goes away
      act();
    });
    this.part(name).replaceChildren(el("p", {}, text), ...[button, link].filter(Boolean));
    this.part(name).hidden = false;
  }
}
