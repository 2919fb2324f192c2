// The search field of a chat: finds messages of the open conversation as one types, and scrolls to the chosen one.

const PAUSE = 150; // milliseconds without a key before a request
const SHINE = 2_500; // milliseconds for which a chosen message is highlighted
const ICON = "M7 2.5a4.5 4.5 0 1 1 0 9 4.5 4.5 0 0 1 0-9zM10.3 10.3 14 14";

let count = 0;

class Search {
  #hits = [];
  #active = -1;
  #next = null; // the page of results after those shown
  #request = new AbortController();
  #timer = 0;

  constructor(chat) {
    this.chat = chat;
    this.panel = chat.panel;
    this.words = chat.panel.words;
    this.name = `chatmemory-search-${count++}`;
    this.#draw();
    this.#listen();
  }

  #draw() {
    const field = this.words.say("search-field");
    this.button = el("button", {
      type: "button",
      class: "chatmemory-search-button",
      title: field,
      "aria-label": field,
      "aria-expanded": "false",
      "aria-controls": this.name,
    });
    this.button.append(icon());
    this.input = el("input", {
      type: "search",
      role: "combobox",
      "aria-label": field,
      "aria-autocomplete": "list",
      "aria-controls": `${this.name}-list`,
      "aria-expanded": "false",
      placeholder: field,
      dir: "auto",
      maxlength: "1000",
      autocomplete: "off",
      autocapitalize: "off",
      spellcheck: "false",
      enterkeyhint: "search",
    });
    const close = this.words.say("search-close");
    this.closing = el("button", { type: "button", class: "chatmemory-search-close", title: close, "aria-label": close }, "×");
    this.list = el("ul", { role: "listbox", id: `${this.name}-list`, "aria-label": this.words.say("search-results") });
    this.list.hidden = true;
    this.none = el("p", { class: "chatmemory-search-none" }, this.words.say("search-none"));
    this.none.hidden = true;
    this.bar = el("div", { role: "search", id: this.name, class: "chatmemory-search" });
    this.bar.hidden = true;
    const row = el("div", { class: "chatmemory-search-row" });
    row.append(this.input, this.closing);
    this.bar.append(row, this.none, this.list);
    const head = this.panel.part("chat-panel").querySelector(".chatmemory-head");
    head.append(this.button);
    head.after(this.bar);
  }

  #listen() {
    this.button.addEventListener("click", () => (this.bar.hidden ? this.open() : this.close()));
    this.closing.addEventListener("click", () => this.close());
    this.input.addEventListener("input", () => this.#wait());
    this.input.addEventListener("focus", () => this.#show());
    this.input.addEventListener("keydown", (event) => this.#press(event));
    // A press must not take the focus from the field before it is a click.
    this.list.addEventListener("pointerdown", (event) => event.preventDefault());
    this.list.addEventListener("click", ({ target }) => {
      const option = target.closest("[role=option]");
      if (option) this.#choose([...this.list.children].indexOf(option));
    });
    this.list.addEventListener("scroll", () => {
      const { scrollHeight, scrollTop, clientHeight } = this.list;
      if (scrollHeight - scrollTop - clientHeight < 40) this.#readMore();
    });
  }

  open() {
    this.bar.hidden = false;
    this.button.setAttribute("aria-expanded", "true");
    this.input.focus();
    this.input.select();
  }

  close() {
    this.#stop();
    this.bar.hidden = true;
    this.button.setAttribute("aria-expanded", "false");
    this.button.focus();
  }

  #press(event) {
    if (event.isComposing) return; // Enter chooses among the candidates of an input method
    const { key } = event;
    if (key === "Escape") this.close();
    else if (key === "ArrowDown") this.#move(1);
    else if (key === "ArrowUp") this.#move(-1);
    else if (key === "Enter") this.#hits.length ? this.#choose(Math.max(0, this.#active)) : this.#search();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  #wait() {
    this.#stop();
    this.#timer = setTimeout(() => this.#search(), PAUSE);
  }

  /** Forget the requests that are under way, and what would send another one. */
  #stop() {
    clearTimeout(this.#timer);
    this.#request.abort();
    this.#request = new AbortController();
  }

  async #search() {
    this.#stop();
    const text = this.input.value;
    if (!text.trim()) return this.#fill([], null);
    const page = await this.#read(`search/?q=${encodeURIComponent(text)}`);
    if (!page) return;
    this.#fill(page.results, page.next);
    this.none.hidden = this.#hits.length > 0;
    const name = page.next ? "search-more" : "search-found";
    this.panel.announce(this.#hits.length ? this.words.amount(name, this.#hits.length) : this.words.say("search-none"));
  }

  async #readMore() {
    if (!this.#next) return;
    const next = this.#next;
    this.#next = null; // not twice
    const page = await this.#read(next);
    if (!page) return;
    this.#next = page.next;
    this.#append(page.results);
  }

  /** Return the next page with results, or the last one; nothing if another search came meanwhile, or if it failed. */
  async #read(path) {
    const { signal } = this.#request;
    try {
      let page = await this.panel.api.call("GET", path, { signal });
      while (!page.results.length && page.next && !signal.aborted) {
        page = await this.panel.api.call("GET", page.next, { signal });
      }
      return signal.aborted ? null : page;
    } catch (error) {
      if (error.name !== "AbortError") this.panel.showError(error, () => this.#search());
      return null;
    }
  }

  #fill(hits, next) {
    this.#hits = [];
    this.#next = next;
    this.list.replaceChildren();
    this.list.scrollTop = 0;
    this.none.hidden = true;
    this.#append(hits);
    this.#activate(-1);
    this.#show();
  }

  #append(hits) {
    this.list.append(...hits.map((hit, index) => this.#option(hit, this.#hits.length + index)));
    this.#hits.push(...hits);
  }

  #option(hit, index) {
    const option = el("li", { role: "option", id: `${this.name}-${index}`, "aria-selected": "false" });
    const said = new Date(hit.created_at).toLocaleString(this.words.language, { dateStyle: "medium", timeStyle: "short" });
    const gone = hit.state === "evicted" ? [this.words.say("forgotten")] : [];
    const about = [this.words.nameOf(hit), said, ...gone].join(" · ");
    const passage = el("span", { class: "chatmemory-search-passage", dir: "auto" });
    passage.append(...marked(hit));
    option.append(el("span", { class: "chatmemory-search-about" }, about), passage);
    return option;
  }

  #show(isShown = this.#hits.length > 0) {
    this.list.hidden = !isShown;
    this.input.setAttribute("aria-expanded", String(isShown));
    if (!isShown) this.#activate(-1);
  }

  #move(step) {
    if (!this.#hits.length) return;
    this.#show();
    const last = this.#hits.length - 1;
    const index = this.#active + step;
    this.#activate(index < 0 ? last : index > last ? 0 : index);
    if (this.#active === last) this.#readMore();
  }

  #activate(index) {
    this.list.children[this.#active]?.setAttribute("aria-selected", "false");
    this.#active = index;
    const option = this.list.children[index];
    option?.setAttribute("aria-selected", "true");
    option?.scrollIntoView({ block: "nearest" });
    if (option) this.input.setAttribute("aria-activedescendant", option.id);
    else this.input.removeAttribute("aria-activedescendant");
  }

  async #choose(index) {
    this.#activate(index);
    const { position } = this.#hits[index];
    this.list.setAttribute("aria-busy", "true");
    const message = await this.chat.showMessage(position);
    this.list.removeAttribute("aria-busy");
    if (!message) return this.panel.showNotice(this.words.say("search-too-far"));
    for (const details of message.querySelectorAll("details")) details.open = true;
    this.#show(false);
    await this.chat.showMessage(position); // the list takes no room any more
    message.tabIndex = -1;
    message.focus({ preventScroll: true });
    message.classList.add("is-found");
    setTimeout(() => message.classList.remove("is-found"), SHINE);
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
  path.setAttribute("d", ICON);
  picture.append(path);
  return picture;
}

/** Return the passage as nodes. Marks count code points, of which an emoji is one; a string of JavaScript has two. */
function marked({ snippet, marks }) {
  const characters = Array.from(snippet);
  const nodes = [];
  let end = 0;
  for (const [start, stop] of marks) {
    nodes.push(characters.slice(end, start).join(""), el("mark", {}, characters.slice(start, stop).join("")));
    end = stop;
  }
  return [...nodes, characters.slice(end).join("")];
}

const searches = new WeakMap();

function attach(chat) {
  if (!searches.has(chat)) searches.set(chat, new Search(chat));
}

document.addEventListener("chatmemory:ready", ({ target }) => attach(target));
for (const chat of document.querySelectorAll("chatmemory-chat[data-ready]")) attach(chat);
