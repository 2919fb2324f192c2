// The demo's page around the chat: the list of conversations, and the way to a new one.

import { fillSwitcher, showTitle, startSwitcher } from "./switcher.js";

const chat = document.querySelector("chatmemory-chat");

startSwitcher(chat);
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  focus();
});
chat.addEventListener("chatmemory:title", ({ detail }) => showTitle(detail.title));
if ("ready" in chat.dataset) start();
else chat.addEventListener("chatmemory:ready", start, { once: true });

async function start() {
  focus();
  await fillSwitcher(chat).catch((error) => chat.panel.showError(error));
  document.body.dataset.ready = "";
}

function focus() {
  chat.panel.part("message").focus({ preventScroll: true });
}
