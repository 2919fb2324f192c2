// Two boxes for what a chat tells its user: one for errors, and one for what is no error. One of them is shown at most.

import { el } from "./dom.js";

export class Notices {
  #place;
  #onShow;

  /** `place` is what the names of its elements begin with; `onShow` is called when one of them is shown. */
  constructor(panel, place = "", onShow = () => {}) {
    this.panel = panel;
    this.#place = place;
    this.#onShow = onShow;
  }

  /** Show an error, and offer to try again if that can help. */
  showError(error, again = null) {
    const { words, root } = this.panel;
    if (error.isSignedOut) {
      const { signIn } = root.dataset;
      const address = signIn && `${signIn}?next=${encodeURIComponent(location.pathname + location.search)}`;
      this.#show("problem", words.say("signed-out"), { link: address && el("a", { href: address }, words.say("sign-in")) });
    } else this.#show("problem", error.message, { action: again && words.say("try-again"), act: again });
  }

  /** Tell why nothing was changed, and offer to try again if the conversation may allow it then. */
  showRefusal(error, again) {
    const { words } = this.panel;
    if (error.isBusy) this.showNotice(words.say("busy"), { action: words.say("try-again"), act: again });
    else this.showError(error, error.status === 409 ? null : again);
  }

  /** Tell what is no error, with a button for what one may do about it. */
  showNotice(text, { action = null, act = null } = {}) {
    this.#show("notice", text, { action, act });
  }

  hide() {
    for (const name of ["problem", "notice"]) {
      const box = this.#box(name);
      if (box) box.hidden = true; // not each place has both
      box?.replaceChildren();
    }
  }

  #show(name, text, { action = null, act = null, link = null }) {
    this.hide();
    const button = action && el("button", { type: "button" }, action);
    button?.addEventListener("click", () => {
      this.panel.part("message").focus(); // the button goes away
      act();
    });
    this.#box(name).replaceChildren(el("p", {}, text), ...[button, link].filter(Boolean));
    this.#box(name).hidden = false;
    this.#onShow();
  }

  #box(name) {
    return this.panel.part(this.#place + name);
  }
}
