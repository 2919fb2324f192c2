// The texts of one chat, in the language of its page.

export class Words {
  #texts;

  constructor(root) {
    this.#texts = JSON.parse(root.querySelector('script[type="application/json"]').textContent);
    this.language = root.dataset.language;
  }

  /** Return a text by its name, with `values` in the places of `%(value)s`. */
  say(name, values = {}) {
    return fill(this.#texts[name], values);
  }

  /** "1 message", "2 messages". */
  amount(name, number) {
    const [one, many] = this.#texts[name];
    return fill(number === 1 ? one : many, { number: this.number(number) });
  }

  number(number) {
    return number.toLocaleString(this.language);
  }

  /** Return the reason for which a message left; the name of one that this page does not know. */
  reason({ reason }) {
    return this.#texts[reason] ?? reason;
  }

  /** Return whose message it is. */
  nameOf({ origin, type }) {
    return this.#texts[origin === "summary" ? "summary" : type] ?? type;
  }
}

function fill(text, values) {
  return text.replace(/%%|%\((\w+)\)s/g, (found, name) => (found === "%%" ? "%" : values[name]));
}
