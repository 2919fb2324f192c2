// What is written but not said yet, kept for as long as the tab is open: signing in again takes nothing away.

/** What is written for one conversation. */
export class Draft {
  #key;

  constructor(id) {
    this.#key = `chatmemory-draft-${id}`;
  }

  /** `isToBeSent` says that somebody sent it before its conversation was there. */
  keep(text, isToBeSent = false) {
    if (text) sessionStorage.setItem(this.#key, JSON.stringify({ text, isToBeSent }));
    else sessionStorage.removeItem(this.#key);
  }

  read() {
    return JSON.parse(sessionStorage.getItem(this.#key)) ?? { text: "", isToBeSent: false };
  }
}
