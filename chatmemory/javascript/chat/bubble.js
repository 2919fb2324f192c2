// One message of the chat, as its user sees it.

import { copyButtons, footer } from "./actions.js";
import { foldedCalls } from "./calls.js";
import { el } from "./dom.js";
import { inPieces } from "./long_text.js";
import { draw, redraw } from "./markdown.js";
import { hasFailed, isHidden, textOf } from "./messages.js";

/** Return the element of a message. */
export function bubble(item, words, isSummarised) {
  const isGone = item.state === "evicted";
  const below = footer(item, words);
  const children = body(item, words, below);
  const isEmpty = children.length === 0;
  const { cut_off: cutOff, stopped } = item.message.attributes ?? {};
  if (cutOff) children.push(el("p", { class: "chatmemory-gone" }, words.say("cut-off", { reason: cutOff })));
  if (stopped === true) children.push(el("p", { class: "chatmemory-gone" }, words.say("was-stopped")));
  // Where there are only calls, their results say the same.
  if (isGone && (textOf(item) || item.type !== "AI")) below.append(el("p", { class: "chatmemory-gone" }, whyGone(item, words, isSummarised)));
  children.push(below);
  const attributes = {
    class: `chatmemory-said${isGone ? " is-gone" : ""}`,
    "data-type": item.type.toLowerCase(),
    "data-position": item.position,
    hidden: isEmpty,
  };
  return el("li", attributes, ...children);
}

/** Return an answer, or a piece of it, drawn from its Markdown. */
export function drawn(text, words) {
  return el("div", { class: "chatmemory-bubble chatmemory-markdown", dir: "auto" }, draw(text, labels(words)));
}

/** Draw an answer that has grown into the element that shows its beginning. */
export function grow(element, text, words) {
  redraw(element, text, labels(words));
}

const labels = (words) => Object.fromEntries(["copy", "copied", "code", "table"].map((name) => [name, words.say(name)]));

function body(item, words, below) {
  const text = textOf(item);
  if (isHidden(item)) return [];
  if (item.type === "SYSTEM") return [el("details", {}, el("summary", {}, words.say("instructions")), ...paragraphs(text, words))];
  if (item.type === "AI") return [...thinking(item, words), ...(text ? answer(item, text, words, below) : []), ...foldedCalls(item, words)];
  if (item.type === "USER") return text ? [speaker(item, words), ...paragraphs(text, words, "chatmemory-bubble")] : [];
  return result(item, text, words);
}

// The name stays outside the paragraph, whose first letter decides the direction of its text.
const speaker = (item, words) => el("span", { class: "chatmemory-unseen" }, `${words.nameOf(item)}: `);

const paragraphs = (text, words, kind = null) => inPieces(text, (piece) => el("p", { class: kind, dir: "auto" }, piece), words);

function thinking({ message }, words) {
  if (!message.thinking) return [];
  return [el("details", {}, el("summary", {}, words.say("thinking-shown")), ...paragraphs(message.thinking, words))];
}

/** Return an answer drawn from its Markdown, and give its footer the buttons; if Markdown shows, one for the raw text. */
function answer(item, text, words, below) {
  const formatted = () => inPieces(text, (piece) => drawn(piece, words), words);
  const shown = el("div", { class: "chatmemory-answer" }, ...formatted());
  const isFormatted = shown.querySelector(".chatmemory-markdown *:not(p, br)") !== null;
  below.append(...copyButtons(text, isFormatted, words));
  if (!isFormatted) return [speaker(item, words), shown];
  const button = el("button", { type: "button", class: "chatmemory-link", "aria-pressed": "false" }, words.say("raw-text"));
  button.addEventListener("click", () => {
    const isRaw = button.getAttribute("aria-pressed") === "false";
    button.setAttribute("aria-pressed", String(isRaw));
    shown.replaceChildren(...(isRaw ? paragraphs(text, words, "chatmemory-bubble chatmemory-raw") : formatted()));
  });
  below.append(button);
  return [speaker(item, words), shown];
}

function result(item, text, words) {
  const name = el("code", {}, item.message.toolName ?? words.nameOf(item));
  const failed = hasFailed(item) ? el("strong", { class: "chatmemory-failed" }, words.say("tool-failed"), " ") : null;
  const [first, ...more] = inPieces(text, (piece) => el("bdi", {}, piece), words);
  return [el("p", { class: "chatmemory-tool" }, name, " ", failed, first, ...more)];
}

function whyGone(item, words, isSummarised) {
  if (isSummarised) return words.say("summarised");
  return item.reason === "window" ? words.say("forgotten") : words.say("forgotten-why", { reason: words.reason(item) });
}
