// Texts of messages, as people read them.

const OPENING = "<summary>\n";
const CLOSING = "\n</summary>";

/** Return the kind of a message, which decides its colour. */
export const kindOf = (item) => (item.origin === "summary" ? "summary" : item.type.toLowerCase());

/** Return whether a message of the memory is a summary, by the tags that the model gets. */
export const isSummary = ({ type, contents }) => type === "USER" && (contents?.[0]?.text ?? "").startsWith(OPENING);

/** Return whether an answer of the model, or of a tool, has to follow a message. */
export function goesOn({ type, origin, message }) {
  return (origin !== "summary" && ["USER", "TOOL_EXECUTION_RESULT"].includes(type)) || message.toolExecutionRequests?.length > 0;
}

/** Return whether a message is the result of a tool that failed. */
export const hasFailed = ({ message }) => message.isError === true;

/** Return whether these are instructions that the site does not show: there are no empty ones. */
export const isHidden = ({ type, text, position }) => type === "SYSTEM" && text === "" && Number.isInteger(position);

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
