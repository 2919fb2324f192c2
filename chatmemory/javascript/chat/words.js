// The texts of one chat, in the language of its page.

export class Words {
  #texts;
  #formats = new Map(); // of times, by their options

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

  /** Return when something happened, in the browser's time zone; the year only of another one. */
  time(moment) {
    const isThisYear = new Date(moment).getFullYear() === new Date().getFullYear();
    return this.#format({ year: isThisYear ? undefined : "numeric", month: "short", day: "numeric", hour: "numeric", minute: "2-digit" }, moment);
  }

  /** Return all that is known of when something happened. */
  moment(moment) {
    return this.#format({ dateStyle: "full", timeStyle: "long" }, moment);
  }

  /** To make a format takes far longer than to use it. */
  #format(options, moment) {
    const key = JSON.stringify(options);
    const format = this.#formats.get(key) ?? new Intl.DateTimeFormat(this.language, options);
    this.#formats.set(key, format);
    return format.format(new Date(moment));
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
