// Branches: the buttons at messages that change a question, ask for another answer, and lead to the other versions.

import { el, svg } from "./dom.js";
import { Editing } from "./editing.js";
import { textOf } from "./messages.js";
import { Notices } from "./notices.js";

const PENCIL = "M3 13l.6-3L10.8 2.8a1.4 1.4 0 0 1 2 0l.4.4a1.4 1.4 0 0 1 0 2L6 12.4z";

export class Branches {
  #editing;
  #notices; // at a message
  #boxes;
  #noticed; // the position of that message
  #isSwitching = false;

  constructor(panel, conversation, history, turns) {
    if (!("goesBack" in panel.root.dataset)) return; // the site does not keep what would come back
    this.panel = panel;
    this.conversation = conversation;
    this.history = history;
    this.turns = turns;
    const box = (name, role) => el("div", { "data-part": `branch-${name}`, class: `chatmemory-${name}`, role, hidden: true });
    this.#boxes = [box("problem", "alert"), box("notice", "status")];
    const onShow = () => this.#boxes.find((each) => !each.hidden).scrollIntoView({ block: "nearest" });
    this.#notices = new Notices(panel, "branch-", onShow);
    this.#editing = new Editing(panel, history, turns, (position) => this.#noticesAt(position));
    history.addEventListener("shown", () => this.#showAll());
    conversation.addEventListener("loaded", () => this.#notices.hide());
    turns.addEventListener("busy", () => turns.isBusy && this.#notices.hide());
  }

  #showAll() {
    const places = placesOf(this.conversation);
    for (const element of this.panel.part("history").children) {
      const place = places.get(Number(element.dataset.position));
      const shown = element.querySelector(".chatmemory-branches");
      const state = JSON.stringify(place);
      if (!place) shown?.remove();
      else if (shown?.dataset.state !== state) {
        shown?.remove();
        element.querySelector(".chatmemory-footer").prepend(this.#draw(place, state));
      }
    }
    if (this.#noticed !== undefined) this.#placeNotices();
  }

  #draw(place, state) {
    const { first, version, siblings, isQuestion, isAnswered } = place;
    const element = el("div", { class: "chatmemory-branches", "data-state": state, "data-version": version });
    if (siblings) element.append(this.#pager(version, siblings));
    if (isQuestion) element.append(this.#button("edit", () => this.#editing.open(first), pencil()));
    if (isAnswered) element.append(this.#button("answer-again", () => this.#regenerate(first, element)));
    return element;
  }

  #button(name, act, icon = null) {
    const label = this.panel.words.say(name);
    const look = { type: "button", class: `chatmemory-link is-${name}`, ...(icon && { title: label, "aria-label": label }) };
    const button = el("button", look, icon ?? label);
    button.addEventListener("click", act);
    return button;
  }

  #pager(version, siblings) {
    const index = siblings.indexOf(version);
    const [number, count] = [index + 1, siblings.length].map((each) => this.panel.words.number(each));
    const look = { class: "chatmemory-pager", role: "group", "aria-label": this.panel.words.say("version-of", { number, count }) };
    const step = (name, by, mark) => {
      const button = this.#button(name, () => this.#switchTo(version, siblings[index + by], name), el("span", {}, mark));
      button.disabled = siblings[index + by] === undefined;
      return button;
    };
    const shown = el("span", { "aria-hidden": "true" }, `${number}/${count}`);
    return el("div", look, step("previous-version", -1, "‹"), shown, step("next-version", 1, "›"));
  }

  #regenerate(first, element) {
    this.panel.part("scroller").focus({ preventScroll: true }); // the button goes away
    this.turns.regenerate(first, this.#noticesAt(positionOf(element)));
  }

  /** Go to the branch of another version; `name` is that of the button that was pressed. */
  async #switchTo(version, other, name) {
    if (this.turns.isBusy || this.#isSwitching) return;
    this.#isSwitching = true;
    const notices = this.#noticesAt(positionOf(this.#find(version) ?? this.#find(other)));
    // Until the other one is there, it is not found.
    const find = () => (this.#find(other) ?? this.#find(version))?.closest("li");
    try {
      await this.history.keepInPlace(find, () => this.turns.switchTo(other));
      this.#focus(other, name);
    } catch (error) {
      notices.showRefusal(error, () => this.#switchTo(version, other, name));
      return;
    } finally {
      this.#isSwitching = false;
    }
    await this.turns.arrive();
  }

  /** Focus the button of a name at a version; at the end, the one that leads back. */
  #focus(version, name) {
    const pager = this.#find(version)?.querySelector(".chatmemory-pager");
    (pager?.querySelector(`.is-${name}:enabled`) ?? pager?.querySelector(":enabled"))?.focus({ preventScroll: true });
  }

  /** Return the buttons at a version. */
  #find(version) {
    return this.panel.part("history").querySelector(`.chatmemory-branches[data-version="${version}"]`);
  }

  /** Return where to tell of problems with a message: below it. */
  #noticesAt(position) {
    this.#noticed = position;
    this.#placeNotices();
    this.#notices.hide();
    return this.#notices;
  }

  #placeNotices() {
    const element = this.history.element(this.#noticed);
    if (element) element.append(...this.#boxes);
    else this.panel.part("answering").before(...this.#boxes); // it is on another branch
  }
}

const positionOf = (element) => Number(element.closest("li").dataset.position);

/**
 * Return where buttons are, by position: at each question, and at the last message of each answer.
 *
 * An answer may consist of several messages, with calls of tools. `first` is the position of its first one, and `version`
 * that of the one with `siblings`.
 */
function placesOf({ history, hasOlder }) {
  const places = new Map();
  let answer = null;
  let isAsked = hasOlder;
  for (const item of history) {
    const { position, siblings, type } = item;
    if (type === "USER") {
      isAsked = true;
      answer = null;
      places.set(position, { first: position, version: position, siblings, isQuestion: isText(item) });
    } else if (["AI", "TOOL_EXECUTION_RESULT"].includes(type)) {
      answer ??= { first: position, version: position, siblings: null, isAnswered: false, last: null };
      if (siblings && !answer.siblings) Object.assign(answer, { siblings, version: position });
      if (type !== "AI") continue;
      places.delete(answer.last);
      answer.last = position;
      answer.isAnswered = isAsked && textOf(item) !== "";
      places.set(position, answer);
    }
  }
  return places;
}

/** Return whether a message consists of text: a box to write in has no place for anything else. */
const isText = (item) => item.origin === "said" && (item.message.contents ?? []).every(({ type }) => type === "TEXT") && textOf(item) !== "";

function pencil() {
  const icon = svg("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" });
  icon.append(svg("path", { d: PENCIL }));
  return icon;
}
