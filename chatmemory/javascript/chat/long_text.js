// Long texts are shown in pieces: a browser needs seconds to break a hundred thousand characters without a space.

import { el } from "./dom.js";

/** The characters after which a text is cut. */
export const PIECE = 20_000;

/**
 * Return elements for a text: its first piece, and while there is more, a button that shows the next one.
 *
 * `piece` makes an element of a text.
 */
export function inPieces(text, piece, words) {
  const end = endOfPiece(text);
  const shown = piece(text.slice(0, end));
  if (end === text.length) return [shown];
  const rest = text.slice(end);
  const label = words.say("show-more", { number: words.number(rest.length) });
  const button = el("button", { type: "button", class: "chatmemory-link" }, label);
  button.addEventListener("click", () => {
    const more = inPieces(rest, piece, words);
    button.replaceWith(...more);
    // The button is gone, and with it the focus.
    more.at(-1).tabIndex = more.length > 1 ? 0 : -1;
    more.at(-1).focus({ preventScroll: true });
  });
  return [shown, button];
}

/** Return where the first piece ends, at a line's end if there is one near, and never within a character. */
export function endOfPiece(text) {
  if (text.length <= PIECE) return text.length;
  const line = text.lastIndexOf("\n", PIECE);
  if (line > PIECE / 2) return line + 1;
  return /[\uD800-\uDBFF]/.test(text[PIECE - 1]) ? PIECE - 1 : PIECE;
}
