// The element <chatmemory-chat>: puts the parts of one chat together. Any number of them may be on a page.

import { Branches } from "./branches.js";
import { Composer } from "./composer.js";
import { Conversation } from "./conversation.js";
import { History } from "./history.js";
import { Memory } from "./memory.js";
import { Panel } from "./panel.js";
import { Suggestions } from "./suggestions.js";
import { Tabs } from "./tabs.js";
import { Turns } from "./turns.js";
import { WindowControls } from "./window.js";

/**
 * Events, which bubble: `chatmemory:ready` when what was said is shown; `chatmemory:title` when the title is another one, its
 * `detail` has `id` and `title`; `chatmemory:message` when something more was said, with `id` and the newest `created_at`.
 */
export class Chat extends HTMLElement {
  #panel = null;
  #composer = null;
  #history = null;
  #newest = null; // when the last message was said

  connectedCallback() {
    if (this.#panel) return; // moved within the page
    this.#panel = new Panel(this);
    this.#start().catch((error) => this.#panel.showError(error));
  }

  disconnectedCallback() {
    queueMicrotask(() => {
      if (!this.isConnected) this.#panel.close();
    });
  }

  /** Where this chat tells of its errors; its texts, and its connection. */
  get panel() {
    return this.#panel;
  }

  /** Scroll to the message at a position and return its element; null if it is not there, or too far up. */
  async showMessage(position) {
    return this.#history?.show(position) ?? null;
  }

  /**
   * Call `extend(element, item)` with each message of the chat, shown now or later, so that it can add to the element.
   * `item` is the message as the REST API has it. Call this after `chatmemory:ready`.
   */
  extendMessages(extend) {
    this.#history.extend(extend);
  }

  /** Send nothing from now on: another chat is being started, and what is written next is meant for that one. */
  hold() {
    this.#composer?.hold();
  }

  /** Go on in this chat: no other one was started. */
  release() {
    this.#composer?.release();
  }

  /** Leave what was written since `hold()` to the conversation that this tab opens next. */
  handOver(id) {
    this.#composer?.handOver(id);
  }

  async #start() {
    const panel = this.#panel;
    const conversation = new Conversation(panel.api);
    const history = new History(panel, conversation);
    this.#history = history;
    if (panel.part("retained")) {
      new Tabs(panel);
      // First the controls, whose size decides where the end of the memory is.
      new WindowControls(panel, conversation, (positions) => memory.preview(positions));
      const memory = new Memory(panel, conversation);
    }
    const turns = new Turns(panel, conversation, history);
    new Branches(panel, conversation, history, turns);
    const composer = new Composer(panel, turns);
    new Suggestions(panel, conversation, (text) => composer.say(text));
    this.#composer = composer;
    conversation.addEventListener("titled", () => this.#showTitle(conversation));
    composer.disabled = true;
    await conversation.load();
    composer.disabled = false;
    this.#showTitle(conversation);
    this.#tellMessage(conversation);
    for (const event of ["loaded", "changed"]) conversation.addEventListener(event, () => this.#tellMessage(conversation));
    document.addEventListener("visibilitychange", () => document.hidden || turns.catchUp(), { signal: panel.signal });
    addEventListener("online", () => turns.catchUp(), { signal: panel.signal });
    // The list of conversations renames.
    const renamed = ({ detail }) => detail.action === "renamed" && detail.id === conversation.id && turns.catchUp();
    document.addEventListener("chatmemory:conversation", renamed, { signal: panel.signal });
    this.dataset.ready = "";
    this.dispatchEvent(new CustomEvent("chatmemory:ready", { bubbles: true }));
    composer.start();
    await turns.resume();
  }

  #showTitle({ id, title }) {
    const shown = this.#panel.part("title");
    shown.textContent = title || shown.dataset.untitled;
    this.dispatchEvent(new CustomEvent("chatmemory:title", { bubbles: true, detail: { id, title } }));
  }

  #tellMessage({ id, history }) {
    const created_at = history.at(-1)?.created_at ?? "";
    if (this.#newest !== null && this.#newest !== created_at)
      this.dispatchEvent(new CustomEvent("chatmemory:message", { bubbles: true, detail: { id, created_at } }));
    this.#newest = created_at;
  }
}

customElements.define("chatmemory-chat", Chat);
