// Puts the page together.

import { Composer } from "./composer.js";
import { Conversation } from "./conversation.js";
import { byId } from "./dom.js";
import { History } from "./history.js";
import { Memory } from "./memory.js";
import { chosen, showConversations, showTitle, startSwitcher } from "./switcher.js";
import { showTabs } from "./tabs.js";
import { WindowControls } from "./window.js";

showTabs();
startSwitcher(show);
try {
  await start(await chosen());
} catch (error) {
  show(error.status === 404 ? new Error("There is no such conversation. Choose another, or start a new one.") : error);
  await showConversations({ id: "", title: "Choose a conversation" }).catch(show);
}

/** Say what went wrong where there is no conversation to say it in. */
function show(error) {
  byId("problem").textContent = error.message;
  byId("problem").hidden = false;
}

async function start(id) {
  const conversation = new Conversation(id);
  const onProblem = (error) => composer.showError(error);
  const history = new History(conversation, onProblem);
  // First the controls, whose size decides where the end of the memory is.
  new WindowControls(conversation, (positions) => memory.preview(positions), onProblem);
  const memory = new Memory(conversation);
  const composer = new Composer(conversation, history, () => showTitle(conversation));
  await conversation.load();
  await showConversations(conversation);
  showTitle(conversation);
  composer.offerAnswer();
  document.body.dataset.ready = "";
  byId("message").focus({ preventScroll: true });
}
