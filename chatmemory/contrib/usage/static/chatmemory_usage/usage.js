// The seconds and the tokens of each answer of a chat: those of all calls of the model since the user's message.

const FIGURES = ["seconds", "input_tokens", "output_tokens"];

class Figures {
  #shown = new Map(); // by position: each message, with the element for its figures if it is an answer with text
  #reading = new Set(); // positions; their lines take their room already, so that nothing moves
  #isDue = false;

  constructor(chat) {
    this.panel = chat.panel;
    this.words = chat.panel.words;
    chat.extendMessages((element, item) => this.#add(element, item));
  }

  #add(element, item) {
    const note = element.querySelector(".chatmemory-answer") ? document.createElement("p") : null;
    if (note) {
      note.className = "chatmemory-usage";
      note.hidden = item.usage !== undefined;
      element.querySelector(".chatmemory-footer").append(note);
    }
    this.#shown.set(item.position, { item, note });
    if (item.type === "AI" && item.usage === undefined) this.#read(item); // it came with the stream
    this.#showSoon();
  }

  async #read(item) {
    item.usage = null; // not twice
    this.#reading.add(item.position);
    try {
      const { usage } = await this.panel.api.call("GET", `messages/${item.position}/`);
      item.usage = usage;
    } catch {
      // The answer is there; a reload asks for its figures again.
    }
    this.#reading.delete(item.position);
    this.#showSoon();
  }

  #showSoon() {
    if (this.#isDue) return;
    this.#isDue = true;
    queueMicrotask(() => {
      this.#isDue = false;
      this.#show();
    });
  }

  #show() {
    const positions = [...this.#shown.keys()].sort((one, other) => one - other);
    let calls = [];
    for (const position of positions) {
      const { item, note } = this.#shown.get(position);
      if (item.type === "USER") calls = [];
      if (item.type === "AI") calls.push(item.usage ?? {});
      if (!note) continue;
      note.textContent = this.#told(calls);
      note.hidden = !note.textContent && !this.#reading.has(position);
    }
  }

  /** Return the sum of some calls. What is not known of one of them is not known of the sum. */
  #told(calls) {
    const [seconds, input, output] = FIGURES.map((name) =>
      calls.every((call) => typeof call[name] === "number") ? calls.reduce((sum, call) => sum + call[name], 0) : null,
    );
    const told = [];
    if (seconds !== null) {
      const shown = seconds.toLocaleString(this.words.language, { minimumFractionDigits: 1, maximumFractionDigits: 1 });
      told.push(this.words.say("usage-seconds", { seconds: shown }));
    }
    if (input !== null && output !== null) {
      const counts = { input: this.words.number(input), output: this.words.number(output) };
      told.push(this.words.say("usage-tokens", counts));
    }
    return told.join(" · ");
  }
}

const chats = new WeakSet();

function attach(chat) {
  if (chats.has(chat)) return;
  chats.add(chat);
  new Figures(chat);
}

document.addEventListener("chatmemory:ready", ({ target }) => attach(target));
for (const chat of document.querySelectorAll("chatmemory-chat[data-ready]")) attach(chat);
