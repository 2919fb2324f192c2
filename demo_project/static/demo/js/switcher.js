// Chooses the conversation to show: the one in the address, the last chat, or a new one.

import { call } from "./api.js";
import { byId, el } from "./dom.js";
import { NEW_TITLE } from "./composer.js";

const MARK = "demo-chat"; // in the metadata of the chats that this page started

const INSTRUCTIONS =
  "Answer briefly, and only from these messages. They are all that you remember: what they do not say, you do not " +
  "know, or no longer. Use the tools for arithmetic and orders.";

/** Return the ID of the conversation to show. */
export async function chosen() {
  const { conversation } = document.body.dataset;
  if (conversation) return conversation;
  const { results } = await call("GET", `?metadata_key=${MARK}&page_size=1`);
  const id = results[0]?.id ?? (await create("first-chat"));
  history.replaceState(null, "", addressOf(id));
  return id;
}

/** Make the list and the button beside it work. */
export function startSwitcher(onProblem) {
  const select = byId("conversation");
  select.addEventListener("change", () => location.assign(addressOf(select.value)));
  byId("new").addEventListener("click", async () => {
    try {
      location.assign(addressOf(await create(crypto.randomUUID())));
    } catch (error) {
      onProblem(error);
    }
  });
}

/** Fill the list. */
export async function showConversations(shown) {
  const { results, next } = await call("GET", "?page_size=100");
  const options = results.filter(({ id }) => id !== shown.id).map((each) => option(each.id, each.title || each.memory_id));
  if (next) options.push(el("option", { disabled: true }, "Older ones are in the admin"));
  byId("conversation").replaceChildren(option(shown.id, shown.title), ...options);
}

/** Show the title of the conversation, which may have changed. */
export function showTitle(shown) {
  byId("conversation").options[0].textContent = shown.title;
  document.title = `${shown.title} · chatmemory`;
}

const option = (id, title) => el("option", { value: id }, title);

const addressOf = (id) => `${document.body.dataset.home}chat/${id}/`;

/** Create a conversation, with a small window, so that forgetting is seen soon. */
async function create(key) {
  const body = { title: NEW_TITLE, window: "messages", limit: 8, metadata: { [MARK]: true } };
  const { id } = await call("POST", "", { body, key });
  await call("POST", `${id}/messages/`, { body: { type: "SYSTEM", text: INSTRUCTIONS }, key: "instructions" });
  return id;
}
