// Puts the page together.

import { Composer } from "./composer.js";
import { Conversation } from "./conversation.js";
import { byId } from "./dom.js";
import { History } from "./history.js";
import { Memory } from "./memory.js";
import { showError } from "./problem.js";
import { chosen, showConversations, showTitle, startSwitcher } from "./switcher.js";
import { showTabs } from "./tabs.js";
import { WindowControls } from "./window.js";

showTabs();
startSwitcher(showError);
try {
  await start(await chosen());
} catch (error) {
  // Without a conversation there is nothing to write in.
  for (const control of document.querySelectorAll("#composer :is(button, textarea), .window input")) control.disabled = true;
  await showConversations({ id: "", title: "Choose a conversation" }).catch(() => {});
  showError(error);
}

async function start(id) {
  const conversation = new Conversation(id);
  const history = new History(conversation, showError);
  // First the controls, whose size decides where the end of the memory is.
  new WindowControls(conversation, (positions) => memory.preview(positions), showError);
  const memory = new Memory(conversation);
  const composer = new Composer(conversation, history, () => showTitle(conversation));
  await conversation.load();
  await showConversations(conversation);
  showTitle(conversation);
  composer.offerAnswer();
  conversation.addEventListener("loaded", () => showTitle(conversation));
  document.addEventListener("visibilitychange", async () => {
    if (document.hidden || composer.isBusy) return;
    const { version } = conversation;
    await conversation.refresh().catch(showError);
    if (conversation.version !== version && !composer.isBusy) composer.offerAnswer();
  });
  document.body.dataset.ready = "";
  byId("message").focus({ preventScroll: true });
}
