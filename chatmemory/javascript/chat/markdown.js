// Draws the Markdown of models' answers, for an element of the class "chatmemory-markdown".
// Elements are made from text, never from markup: an answer may contain anything.

import { copyButton } from "./copying.js";
import { el } from "./dom.js";
import MarkdownIt from "./vendor/markdown-it.js";

// What is beyond these is shown as it was written: it is no answer for people, and to draw it might freeze the page.
const MOST_CHARACTERS = 20_000;
const MOST_TOKENS = 10_000;
const DEEPEST = 20; // a list and its item are two levels

const LONGEST_LANGUAGE = 40;

const SCHEMES = new Set(["http:", "https:", "mailto:"]);
const LETTER_WITHOUT_SPACES = /[\p{scx=Han}\p{scx=Hiragana}\p{scx=Katakana}\p{scx=Hangul}]/u;
const BREAK = /<br ?\/?>/i;
const TASK = /^\[([ xX])\]\s+/;
const FORMULA = { "\\(": "\\)", "\\[": "\\]", $$: "$$" }; // where it begins, and where it ends

const TAGS = {
  blockquote: "blockquote",
  bullet_list: "ul",
  em: "em",
  heading: "p", // the headings of an answer are none of the page
  list_item: "li",
  ordered_list: "ol",
  paragraph: "p",
  s: "s",
  strong: "strong",
  table: "table",
  tbody: "tbody",
  td: "td",
  th: "th",
  thead: "thead",
  tr: "tr",
};
const WITH_A_DIRECTION = new Set(["blockquote", "li", "ol", "p", "table", "td", "th", "ul"]);

// Nodes as they were drawn: on the page, buttons say something else meanwhile, and scripts of the page draw code.
const asDrawn = new WeakMap();
const MAY_CHANGE = ".chatmemory-code, .chatmemory-math";

const LABELS = { copy: "Copy", copied: "Copied", code: "Code", table: "Table" };

const parser = new MarkdownIt({ linkify: true });
parser.linkify.set({ fuzzyEmail: false, fuzzyIP: false, fuzzyLink: false }); // main.py is no address
parser.validateLink = (address) => safe(address) !== null;
// While a list is on its way, its first hyphen stands below the line before it.
parser.disable("lheading");
// Markdown ends emphasis after a punctuation mark only before a space, and these scripts have none.
parser.inline.State = class extends parser.inline.State {
  scanDelims(start, canSplitWord) {
    const found = super.scanDelims(start, canSplitWord);
    if (!canSplitWord) return found;
    const [before, after] = [this.src.charAt(start - 1), this.src.charAt(start + found.length)];
    return {
      ...found,
      can_open: found.can_open || (after.trim() !== "" && LETTER_WITHOUT_SPACES.test(before)),
      can_close: found.can_close || (before.trim() !== "" && LETTER_WITHOUT_SPACES.test(after)),
    };
  }
};

// What is between the marks of a formula is no Markdown. The marks are shown, too, unless a script of the page draws it.
parser.inline.ruler.before("escape", "math", (state, isSilent) => {
  const { pos, posMax, src } = state;
  const closing = FORMULA[src.slice(pos, pos + 2)];
  const end = closing ? next(src, closing, pos + 2) : -1;
  if (end < 0 || end + 2 > posMax || !src.slice(pos + 2, end).trim()) return false;
  if (!isSilent) state.push("math_inline", "", 0).content = src.slice(pos, end + 2);
  state.pos = end + 2;
  return true;
});
parser.block.ruler.before("fence", "math", blockOfMath, { alt: ["paragraph", "reference", "blockquote", "list"] });
parser.core.ruler.push("tasks", ({ tokens }) =>
  tokens.forEach(({ type }, index) => {
    const inline = type === "list_item_open" && tokens[index + 1].type === "paragraph_open" && tokens[index + 2];
    const first = inline && inline.children[0];
    const [mark, filling] = (first?.type === "text" && TASK.exec(first.content)) || [];
    if (!mark) return;
    first.content = first.content.slice(mark.length);
    inline.meta = { isDone: filling !== " " };
  }),
);

const lastFound = new Map(); // by mark: the text, from where it was looked for, and where it is

/** Return where a mark comes next, or -1. A text of thousands of beginnings is not searched to its end for each. */
function next(src, mark, from) {
  const last = lastFound.get(mark);
  if (last?.src === src && last.from <= from && (last.at < 0 || from <= last.at)) return last.at;
  const at = src.indexOf(mark, from);
  lastFound.set(mark, { src, from, at });
  return at;
}

/** Read a formula in lines of its own. Without an end it ends with the paragraph: it may be on its way. */
function blockOfMath(state, first, last, isSilent) {
  const { blkIndent, bMarks, eMarks, sCount, src, tShift } = state;
  const start = bMarks[first] + tShift[first];
  const opening = src.slice(start, start + 2);
  if (sCount[first] - blkIndent > 3 || !["\\[", "$$"].includes(opening)) return false;
  const isAlone = src.slice(start + 2, eMarks[first]).trim() === "";
  const gap = next(src, "\n\n", start);
  let end = next(src, FORMULA[opening], start + 2);
  if (end < 0 || (gap >= 0 && gap < end)) {
    if (!isAlone) return false;
    end = gap < 0 ? src.length : gap;
  } else end += 2;
  let line = first;
  while (line < last - 1 && eMarks[line] < end && sCount[line + 1] >= blkIndent) line += 1;
  if ((eMarks[line] < end && !isAlone) || src.slice(end, eMarks[line]).trim()) return false;
  if (isSilent) return true;
  state.line = line + 1;
  const token = state.push("math_block", "", 0);
  token.content = state.getLines(first, line + 1, blkIndent, false);
  token.map = [first, line + 1];
  return true;
}

/** Return the elements for a text. `labels` are the words on the page: `copy`, `copied`, `code`, `table`. */
export function draw(text, labels = {}) {
  const fragment = document.createDocumentFragment();
  const tokens = parsed(text);
  if (tokens) build(tokens, fragment, { ...LABELS, ...labels });
  else fragment.append(el("p", { class: "chatmemory-raw", dir: "auto" }, text));
  for (const node of fragment.children) {
    if (node.matches(MAY_CHANGE) || node.querySelector(MAY_CHANGE)) asDrawn.set(node, node.cloneNode(true));
  }
  return fragment;
}

/** Draw a text that has grown into the element that shows it. What is as before stays, with its focus and selection. */
export function redraw(element, text, labels = {}) {
  const drawn = [...draw(text, labels).childNodes];
  let same = 0;
  const before = (node) => asDrawn.get(node) ?? node;
  while (same < drawn.length && before(element.childNodes[same])?.isEqualNode(drawn[same])) same += 1;
  while (element.childNodes.length > same) element.lastChild.remove();
  element.append(...drawn.slice(same));
}

/** Return the tokens of a text, or null if it is to be shown as it is. */
function parsed(text) {
  if (text.length > MOST_CHARACTERS) return null;
  const tokens = parser.parse(text, {});
  const count = tokens.reduce((sum, { children }) => sum + 1 + (children?.length ?? 0), 0);
  return count > MOST_TOKENS || tokens.some(({ level }) => level > DEEPEST) ? null : tokens;
}

function build(tokens, root, labels) {
  const open = [root];
  tokens.forEach((token, index) => {
    const here = open.at(-1);
    if (token.type === "inline") build(token.children, token.meta ? task(token.meta, here) : here, labels);
    else if (token.hidden) return; // the paragraphs of a list without empty lines
    else if (token.nesting < 0) open.pop();
    else if (token.nesting > 0) {
      const element = opened(token, tokens[index + 1]);
      here.append(token.type === "table_open" ? scroller(element, labels.table) : element);
      open.push(element);
    } else here.append(...leaf(token, here, labels));
  });
}

/** Return the element that a token opens. */
function opened(token, next) {
  const kind = token.type.replace(/_open$/, "");
  if (kind === "link") return link(token.attrGet("href"));
  // A heading of a table without a text names nothing.
  const tag = kind === "th" && next.content === "" ? "td" : TAGS[kind];
  const element = el(tag, { dir: WITH_A_DIRECTION.has(tag) && "auto" });
  if (kind === "heading") {
    element.className = "chatmemory-heading";
    element.dataset.level = token.tag.slice(1);
  }
  if (kind === "ordered_list") element.start = Number(token.attrGet("start") ?? 1);
  if (tag === "th") element.scope = "col";
  const align = /^text-align:(left|center|right)$/.exec(token.attrGet("style") ?? "");
  if (align) element.dataset.align = align[1];
  return element;
}

/** Return the nodes of a token that has nothing within. */
function leaf(token, here, labels) {
  switch (token.type) {
    case "code_inline":
      return [el("code", {}, token.content)];
    case "code_block":
    case "fence":
      return [codeBlock(token, labels)];
    case "hardbreak":
    case "softbreak":
      return [el("br")];
    case "hr":
      return [el("hr")];
    case "math_block":
      return [formula("div", token.content)];
    case "math_inline":
      return [formula("span", token.content)];
    case "image":
      return [image(token, here)];
    default:
      return here.closest?.("td, th") ? withBreaks(token.content) : [token.content];
  }
}

/** Return the label of a box, whose text names it. */
function task({ isDone }, here) {
  const label = el("label", {}, el("input", { type: "checkbox", checked: isDone, disabled: true }));
  here.append(label);
  return label;
}

/** Return the lines of a table's cell: Markdown has no other way to write several than HTML's. */
const withBreaks = (text) => text.split(BREAK).flatMap((line, index) => (index ? [el("br"), line] : [line]));

/** Return a link to an image, which is not loaded: its address may tell somebody what was said. */
function image(token, here) {
  const address = token.attrGet("src");
  const name = token.content || address;
  if (here.closest?.("a")) return el("span", {}, name);
  const element = link(address);
  element.append(name);
  return element;
}

function link(address) {
  const href = safe(address);
  return href === null ? el("span") : el("a", { href, rel: "noopener noreferrer", target: "_blank" });
}

/** Return the whole address that a link may lead to, or null. Addresses within the site begin with a slash. */
function safe(address) {
  const base = address.startsWith("/") ? document.baseURI : undefined;
  if (!URL.canParse(address, base)) return null;
  const { href, protocol } = new URL(address, base);
  return SCHEMES.has(protocol) ? href : null;
}

function codeBlock({ content, info }, labels) {
  const language = info.trim().split(/\s/, 1)[0].slice(0, LONGEST_LANGUAGE);
  const source = content.replace(/\n$/, "");
  const code = el("code", {}, source);
  offer(code, "chatmemory:code", { language, source });
  const name = language ? `${labels.code}: ${language}` : labels.code;
  return el(
    "div",
    { class: "chatmemory-code" },
    el("div", { class: "chatmemory-code-head" }, el("span", {}, language), copyButton(labels, () => source)),
    el("pre", { tabindex: "0", role: "group", "aria-label": name, dir: "ltr" }, code),
  );
}

/** Return a formula as it was written. */
function formula(tag, content) {
  const element = el(tag, { class: "chatmemory-math", dir: "ltr" }, content);
  const written = content.trim();
  offer(element, "chatmemory:math", { source: written.slice(2, -2).trim(), isBlock: !written.startsWith("\\(") });
  return element;
}

/** Let the scripts of the page draw a part of an answer otherwise, once it is in the page. */
function offer(element, name, detail) {
  queueMicrotask(() => element.isConnected && element.dispatchEvent(new CustomEvent(name, { bubbles: true, detail })));
}

/** Return a box that scrolls what is wider than the page. */
const scroller = (table, name) =>
  el("div", { class: "chatmemory-table", tabindex: "0", role: "group", "aria-label": name }, table);
