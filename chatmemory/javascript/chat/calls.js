// The tool calls of a message: one line each, which opens to all of the arguments.

import { el } from "./dom.js";
import { inPieces } from "./long_text.js";
import { callsOf } from "./messages.js";

const LONGEST = 200; // characters of the line
const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;
const UNSEEN = /[\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g; // some of them turn the text around

/** Return an element for each call. */
export function foldedCalls(item, words) {
  const requests = item.message.toolExecutionRequests ?? [];
  return callsOf(item).map((call, index) => {
    const line = [el("span", { class: "chatmemory-unseen" }, words.say("calls"), " "), el("code", { dir: "ltr" }, shown(shortened(call)))];
    const given = readable(requests[index].arguments ?? "");
    if (/^(\{\s*\})?$/.test(given)) return el("p", { class: "chatmemory-call" }, ...line);
    const look = { tabindex: "0", role: "group", "aria-label": words.say("arguments"), dir: "ltr" };
    const all = inPieces(given, (piece) => el("pre", { class: "chatmemory-arguments", ...look }, piece), words);
    return el("details", {}, el("summary", { class: "chatmemory-call" }, ...line), ...all);
  });
}

/** Return a text with escapes for the characters that nobody sees. */
const shown = (text) => text.replace(UNSEEN, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`);

const shortened = (call) => (call.length > LONGEST ? `${call.slice(0, LONGEST)}…` : call);

/** Return JSON with a line for each value, or a text that is no JSON as it is. */
function readable(json) {
  try {
    JSON.parse(json);
  } catch {
    return shown(json);
  }
  // By its tokens: parsing loses digits of large numbers, and keys that are there twice.
  const tokens = json.match(TOKEN);
  let depth = 0;
  const line = () => `\n${"  ".repeat(depth)}`;
  return tokens.reduce((text, token, index) => {
    const isEmpty = /[{[]/.test(tokens[index - 1]) && tokens[index - 1].length === 1;
    if (/^[}\]]$/.test(token)) {
      depth -= 1;
      return text + (isEmpty ? "" : line()) + token;
    }
    const before = isEmpty || tokens[index - 1] === "," ? line() : "";
    if (/^[{[]$/.test(token)) depth += 1;
    return text + before + (token === ":" ? ": " : token.startsWith('"') ? quoted(token) : token);
  }, "");
}

/** Return a string of JSON without the escapes that people need not see. */
const quoted = (token) => shown(JSON.stringify(JSON.parse(token)));
