// What stands below a message: when it was said, and for an answer what one may do with it.

import { copyButton } from "./copying.js";
import { el } from "./dom.js";
import { endOfPiece } from "./long_text.js";
import { draw } from "./markdown.js";

const BLOCKS = "blockquote, div, hr, ol, p, pre, table, tbody, thead, tr, ul";

/** Return the footer of a message, which has its time. Other scripts may add to it. */
export function footer({ created_at: moment }, words) {
  if (!moment) return el("div", { class: "chatmemory-footer" });
  const look = { datetime: moment, title: words.moment(moment) };
  return el("div", { class: "chatmemory-footer" }, el("time", look, words.time(moment)));
}

/** Return the buttons that copy an answer: its text, and if it is formatted its Markdown. */
export function copyButtons(text, isFormatted, words) {
  const button = (name, textOf) =>
    copyButton({ copy: words.say(name), copied: words.say("copied") }, textOf, "chatmemory-link");
  if (!isFormatted) return [button("copy-text", () => text)];
  return [button("copy-text", () => plain(text)), button("copy-markdown", () => text)];
}

/** Return an answer as it is read, without the marks of Markdown. */
function plain(text) {
  const parts = [];
  for (let rest = text; rest; rest = rest.slice(endOfPiece(rest))) parts.push(textOf(draw(rest.slice(0, endOfPiece(rest)))));
  return parts.join("\n\n");
}

function textOf(node) {
  if (node.nodeType === Node.TEXT_NODE) return node.data;
  const children = [...node.childNodes];
  switch (node.localName) {
    case "br":
      return "\n";
    case "hr":
      return "---";
    case "input":
      return node.checked ? "[x] " : "[ ] ";
    case "ol":
    case "ul":
      return children.map((item, index) => listed(item, node.start === undefined ? "-" : `${node.start + index}.`)).join("\n");
    case "tr":
      return children.map((cell) => textOf(cell).replaceAll("\n", " ")).join("\t");
  }
  // Within an item or a table there are no empty lines.
  const gap = ["li", "table", "tbody", "thead"].includes(node.localName) ? "\n" : "\n\n";
  return children.reduce((text, child) => {
    if (child.matches?.(".chatmemory-code-head")) return text;
    return text + (text && child.matches?.(BLOCKS) ? gap : "") + textOf(child);
  }, "");
}

const listed = (item, mark) => `${mark} ${textOf(item).replaceAll("\n", `\n${" ".repeat(mark.length + 1)}`)}`;
