// A button that copies a text, and says that it has.

import { el } from "./dom.js";

const COPIED_FOR = 2_000; // milliseconds

/** Return a button that copies what `textOf` returns. `labels` are what it says before and after: `copy` and `copied`. */
export function copyButton(labels, textOf, kind = "chatmemory-copy") {
  const shown = el("span", { "aria-live": "polite" }, labels.copy);
  const button = el("button", { type: "button", class: kind }, shown);
  let timer = 0;
  button.addEventListener("click", async () => {
    if (!(await copy(textOf(), button))) return;
    shown.textContent = labels.copied;
    clearTimeout(timer);
    timer = setTimeout(() => (shown.textContent = labels.copy), COPIED_FOR);
  });
  return button;
}

/** Return whether the text was copied. */
async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Browsers offer the clipboard only to pages that came over HTTPS; the older way copies what is selected.
    const box = el("textarea", { readonly: true });
    box.value = text;
    button.after(box); // within a dialog, nothing outside of it can have the focus
    box.focus({ preventScroll: true });
    box.select();
    const isDone = document.execCommand("copy");
    box.remove();
    button.focus({ preventScroll: true });
    return isDone;
  }
}
