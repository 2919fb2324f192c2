// Names, reasons and texts of messages, for people.

const OPENING = "<summary>\n";
const CLOSING = "\n</summary>";

const NAMES = {
  SYSTEM: "Instructions",
  USER: "You",
  AI: "Model",
  TOOL_EXECUTION_RESULT: "Tool",
  CUSTOM: "Other",
};

const REASONS = {
  window: "no room left",
  orphan: "its tool call was forgotten",
  tool_cleared: "old tool result, a note took its place",
  replaced: "new instructions",
  rewritten: "memory was rewritten",
  summarized: "a summary stands for it",
  cleared: "memory was cleared",
};

/** Return the kind of a message, which decides its colour. */
export const kindOf = (item) => (item.origin === "summary" ? "summary" : item.type.toLowerCase());

export const nameOf = (item) => (item.origin === "summary" ? "Summary" : NAMES[item.type] ?? item.type);

export const reasonOf = (item) => REASONS[item.reason] ?? item.reason;

/** Return whether a message of the memory is a summary, by the tags that the model gets. */
export const isSummary = ({ type, contents }) => type === "USER" && (contents?.[0]?.text ?? "").startsWith(OPENING);

/** Return which messages a summary stands for. */
export const standsFor = ({ covers_from: first, covers_to: last }) => `In the place of messages ${first} to ${last}`;

/** Return the whole text, with placeholders for media. */
export function textOf({ type, origin, text, message }) {
  if (origin === "summary") return message.contents[0].text.slice(OPENING.length, -CLOSING.length);
  if (type === "AI" || type === "SYSTEM") return message.text ?? "";
  if (!message.contents) return text || message.text || JSON.stringify(message.attributes ?? {});
  return message.contents.map((part) => (part.type === "TEXT" ? part.text : `[${part.type.toLowerCase()}]`)).join("\n");
}

/** Return the tool calls of a message, as in `calculator(3*4)`. */
export function callsOf({ message }) {
  return (message.toolExecutionRequests ?? []).map(({ name, arguments: given }) => `${name}(${shortArguments(given)})`);
}

function shortArguments(given) {
  try {
    const values = Object.values(JSON.parse(given || "{}"));
    return values.map((value) => (typeof value === "string" ? value : JSON.stringify(value))).join(", ");
  } catch {
    return given;
  }
}
