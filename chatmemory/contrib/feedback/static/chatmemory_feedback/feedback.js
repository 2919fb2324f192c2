// Thumbs at each answer of a chat, and a field for what was wrong with a bad one.

const THUMB = "M5.5 7.2 8.2 1.6c1 0 1.8.8 1.8 1.8v2.8h3.1c.9 0 1.5.8 1.4 1.6l-.8 4.9c-.1.7-.7 1.2-1.4 1.2H5.5zm0 0H2v6.7h3.5";

let count = 0;

class Thumbs {
  #buttons = {};
  #sending = Promise.resolve(); // one request after the other, so that the last press holds

  constructor(panel, item) {
    this.panel = panel;
    this.words = panel.words;
    this.item = item;
    this.element = el("div", { class: "chatmemory-feedback" });
    const row = el("div", { class: "chatmemory-feedback-row" });
    for (const value of ["up", "down"]) {
      const label = this.words.say(`feedback-${value}`);
      const button = el("button", { type: "button", class: `chatmemory-thumb is-${value}`, title: label, "aria-label": label });
      button.append(icon());
      button.addEventListener("click", () => this.#press(value));
      this.#buttons[value] = button;
      row.append(button);
    }
    const about = { type: "button", class: "chatmemory-link", "aria-expanded": "false" };
    this.comment = el("button", about, this.words.say("feedback-edit"));
    this.comment.addEventListener("click", () => this.#toggleForm(!this.#isOpen));
    row.append(this.comment);
    this.element.append(row);
    this.#show();
  }

  #drawForm() {
    const label = this.words.say("feedback-comment");
    const name = `chatmemory-feedback-${count++}`;
    this.form = el("form", { id: name, class: "chatmemory-feedback-form" });
    this.comment.setAttribute("aria-controls", name);
    this.field = el("textarea", {
      "aria-label": label,
      placeholder: label,
      rows: "2",
      dir: "auto",
      maxlength: this.words.say("feedback-longest"),
    });
    const send = el("button", { type: "submit" }, this.words.say("feedback-send"));
    const cancel = el("button", { type: "button", class: "chatmemory-link" }, this.words.say("feedback-cancel"));
    cancel.addEventListener("click", () => this.#closeForm());
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#closeForm();
      this.#give({ value: "down", comment: this.field.value.trim() });
    });
    this.form.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || event.isComposing) return;
      event.stopPropagation();
      this.#closeForm();
    });
    this.form.append(this.field, send, cancel);
    this.element.append(this.form);
  }

  #press(value) {
    const isWithdrawn = this.item.feedback?.value === value;
    this.#give(isWithdrawn ? null : { value, comment: "" });
    this.#toggleForm(!isWithdrawn && value === "down");
  }

  /** Show it at once, and send it after what was sent before. If that fails, show what the server has. */
  #give(wanted) {
    const before = this.item.feedback ?? null;
    this.item.feedback = wanted;
    this.#show();
    this.#sending = this.#sending.then(() => this.#send(wanted, before));
  }

  async #send(wanted, before) {
    const path = `messages/${this.item.position}/feedback/`;
    try {
      await this.panel.api.call(...(wanted ? ["PUT", path, { body: wanted }] : ["DELETE", path]));
      this.panel.announce(this.words.say(wanted ? "feedback-saved" : "feedback-withdrawn"));
    } catch (error) {
      if (this.item.feedback === wanted) {
        this.item.feedback = before;
        this.#show();
      }
      this.panel.showError(error, () => this.#give(wanted));
    }
  }

  get #isOpen() {
    return this.comment.getAttribute("aria-expanded") === "true";
  }

  #toggleForm(isOpen) {
    if (isOpen === this.#isOpen) return;
    if (!this.form) this.#drawForm(); // most answers need none
    if (isOpen) this.field.value = this.item.feedback?.comment || this.field.value;
    this.form.hidden = !isOpen;
    this.comment.setAttribute("aria-expanded", String(isOpen));
    if (isOpen) this.form.scrollIntoView({ block: "nearest" });
  }

  #closeForm() {
    this.#toggleForm(false);
    this.comment.focus(); // the field goes away
  }

  #show() {
    const value = this.item.feedback?.value;
    for (const [name, button] of Object.entries(this.#buttons)) button.setAttribute("aria-pressed", String(name === value));
    this.comment.hidden = value !== "down";
  }
}

function el(tag, attributes = {}, text = "") {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text) element.textContent = text;
  return element;
}

function icon() {
  const [picture, path] = ["svg", "path"].map((tag) => document.createElementNS("http://www.w3.org/2000/svg", tag));
  for (const [name, value] of [["viewBox", "0 0 16 16"], ["width", "16"], ["height", "16"], ["aria-hidden", "true"]]) {
    picture.setAttribute(name, value);
  }
  path.setAttribute("d", THUMB);
  picture.append(path);
  return picture;
}

const chats = new WeakSet();

function attach(chat) {
  if (chats.has(chat)) return;
  chats.add(chat);
  chat.extendMessages((element, item) => {
    // Not at what only calls a tool.
    if (element.querySelector(".chatmemory-answer")) element.querySelector(".chatmemory-footer").append(new Thumbs(chat.panel, item).element);
  });
}

document.addEventListener("chatmemory:ready", ({ target }) => attach(target));
for (const chat of document.querySelectorAll("chatmemory-chat[data-ready]")) attach(chat);
