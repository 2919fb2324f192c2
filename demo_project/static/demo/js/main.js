// The demo's page around the chat and the list of conversations.

const chat = document.querySelector("chatmemory-chat");
const { untitled } = document.body.dataset;

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  focus();
});
chat.addEventListener("chatmemory:title", ({ detail }) => (document.title = `${detail.title || untitled} · chatmemory`));
document.addEventListener("chatmemory:conversation", (event) => {
  if (event.detail.action !== "creating") return;
  event.preventDefault();
  create(event.target);
});
if ("ready" in chat.dataset) start();
else chat.addEventListener("chatmemory:ready", start, { once: true });

function start() {
  focus();
  document.body.dataset.ready = "";
}

function focus() {
  chat.panel.part("message").focus({ preventScroll: true });
}

/** Start a chat with the demo's small window. */
async function create(list) {
  // A server may be slow: until the new chat is there, nothing may go to the old one.
  chat.hold();
  try {
    const { id } = await chat.panel.api.call("POST", new URL(document.body.dataset.new, location.href));
    chat.handOver(id);
    location.assign(list.addressOf(id));
  } catch (error) {
    chat.release();
    chat.panel.showError(error);
  }
}
