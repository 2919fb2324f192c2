// Names, reasons and texts of messages, for people.

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
  cleared: "memory was cleared",
};

export const nameOf = (item) => NAMES[item.type] ?? item.type;

export const reasonOf = (item) => REASONS[item.reason] ?? item.reason;

/** Return the whole text, with placeholders for media. */
export function textOf({ type, text, message }) {
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
