// What all parts of one chat share: its element, its texts, its connection, and where it tells of problems.

import { Api } from "./api.js";
import { el } from "./dom.js";
import { Notices } from "./notices.js";
import { Words } from "./words.js";

const SPOKEN = 10_000; // milliseconds for which an announcement stays

export class Panel {
  #open = new AbortController();

  constructor(root) {
    this.root = root;
    this.words = new Words(root);
    this.api = new Api(root, this.words);
    this.notices = new Notices(this);
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

  /** Show an error that is about the whole chat. */
  showError(error, again = null) {
    this.notices.showError(error, again);
  }

  /** Tell what is no error and about the whole chat. */
  showNotice(text, offer = {}) {
    this.notices.showNotice(text, offer);
  }
}
