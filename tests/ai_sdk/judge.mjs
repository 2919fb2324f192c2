// Reads a question a line, and answers each with a line: what the AI SDK's own readers make of streams and messages.
import { createInterface } from 'node:readline';
import { isDeepStrictEqual } from 'node:util';
import { parseJsonEventStream, readUIMessageStream, uiMessageChunkSchema, validateUIMessages } from 'ai';

// Also of what was parsed: JavaScript reads -0 and writes 0.
const asJson = value => JSON.parse(JSON.stringify(value));

// A network cuts bytes anywhere, also within a character.
function bytesOf(text, size) {
  const bytes = new TextEncoder().encode(text);
  let at = 0;
  return new ReadableStream({
    pull(controller) {
      if (at >= bytes.length) return controller.close();
      controller.enqueue(bytes.slice(at, (at += size)));
    },
  });
}

async function read({ events, size }) {
  const problems = [];
  const chunks = parseJsonEventStream({ stream: bytesOf(events, size), schema: uiMessageChunkSchema }).pipeThrough(
    new TransformStream({
      transform(result, controller) {
        if (result.success) controller.enqueue(result.value);
        else problems.push(`no chunk: ${result.error}`);
      },
    }),
  );
  let message;
  const errors = [];
  for await (message of readUIMessageStream({ stream: chunks, onError: error => errors.push(error.message) }));
  return { message, problems, errors };
}

async function valid(messages) {
  const validated = asJson(await validateUIMessages({ messages }));
  if (!isDeepStrictEqual(validated, asJson(messages))) throw new Error(`something was dropped: ${JSON.stringify(validated)}`);
}

const acts = {
  // The message that a stream makes, once it has passed all checks.
  async stream(question) {
    const { message, problems, errors } = await read(question);
    if (problems.length) throw new Error(problems.join('\n'));
    const made = message ? asJson(message) : null;
    if (made) await valid([made]);
    return { message: made, errors };
  },
  // The branches that a page of assistant-ui has of a tree.
  async repository({ headId, messages }) {
    const { MessageRepository } = await import('@assistant-ui/core/internal');
    await valid(messages.map(({ message }) => message));
    const repository = new MessageRepository();
    repository.import({ headId, messages });
    return {
      path: repository.getMessages().map(({ id }) => id),
      siblings: Object.fromEntries(messages.map(({ message: { id } }) => [id, repository.getBranches(id)])),
      exported: repository.export(),
    };
  },
  async messages({ messages }) {
    await valid(messages);
    return {};
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const question = JSON.parse(line);
  let answer;
  try {
    answer = await acts[question.act](question);
  } catch (error) {
    answer = { problem: String(error?.message ?? error) };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
