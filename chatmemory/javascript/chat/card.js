// One message of the memory, as the model gets it.

import { foldedCalls } from "./calls.js";
import { el } from "./dom.js";
import { hasFailed, isHidden, kindOf, textOf } from "./messages.js";

const MOST = 2_000; // characters; the chat beside it has the rest

export function card(item, words) {
  const text = isHidden(item) ? words.say("hidden") : textOf(item);
  return el(
    "li",
    { class: "chatmemory-entry", "data-type": kindOf(item), "data-position": item.position },
    el(
      "div",
      { class: "chatmemory-card" },
      facts(item, words),
      item.origin === "summary" ? el("p", { class: "chatmemory-quiet" }, standsFor(item, words)) : null,
      ...(text ? clamped(text, words) : []),
      ...foldedCalls(item, words),
      el("p", { class: "chatmemory-why" }),
    ),
  );
}

function facts(item, words) {
  const tool = item.type === "TOOL_EXECUTION_RESULT" ? item.message.toolName : null;
  const tokens = item.token_count === null ? words.say("from-rewrite") : words.amount("tokens", item.token_count);
  return el(
    "p",
    { class: "chatmemory-facts" },
    el("strong", {}, words.nameOf(item)),
    tool && el("code", {}, tool),
    hasFailed(item) ? el("strong", { class: "chatmemory-failed" }, words.say("tool-failed")) : null,
    el("span", {}, tokens),
  );
}

const standsFor = ({ covers_from: first, covers_to: last }, words) => words.say("stands-for", { first, last });

/** Return a text cut to a few lines, and a button that shows more of it. */
function clamped(text, words) {
  const beginning = text.length > MOST ? `${text.slice(0, MOST)}…` : text;
  const shown = el("p", { class: "chatmemory-text", dir: "auto" }, beginning);
  const button = el("button", { type: "button", class: "chatmemory-link", "aria-expanded": "false", hidden: true }, words.say("show-all"));
  button.addEventListener("click", () => {
    const isWhole = shown.classList.toggle("is-whole");
    button.textContent = words.say(isWhole ? "show-less" : "show-all");
    button.setAttribute("aria-expanded", String(isWhole));
  });
  return [shown, button];
}
