// Error messages, above the panels: on phones only one panel is visible.

import { byId, el } from "./dom.js";

const place = byId("problem");

/** Show a problem, with a button or a link that helps. */
export function showProblem(text, { action = null, act = null, link = null } = {}) {
  const button = action && el("button", { type: "button" }, action);
  button?.addEventListener("click", () => {
    byId("message").focus(); // the button goes away
    act();
  });
  place.replaceChildren(el("p", {}, text), ...[button, link].filter(Boolean));
  place.hidden = false;
}

export function hideProblem() {
  place.hidden = true;
  place.replaceChildren();
}

/** Show an error, and offer to try again if that can help. */
export function showError(error, again = null) {
  if (error.status === 403) {
    const address = `${document.body.dataset.signIn}?next=${encodeURIComponent(location.pathname)}`;
    showProblem("You are signed out.", { link: el("a", { href: address }, "Sign in again") });
  } else showProblem(error.message, { action: again && "Try again", act: again });
}
