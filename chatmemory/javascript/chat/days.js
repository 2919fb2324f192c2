// Days as people name them in a list: in the language of the page, and by the calendar of the browser's time zone.

const DAY = 86_400_000; // milliseconds
const TODAY = { timeStyle: "short" };
const WEEK = { weekday: "long", hour: "numeric", minute: "numeric" };
const OLDER = { dateStyle: "medium" };
const WHOLE = { dateStyle: "full", timeStyle: "short" };

export class Days {
  constructor(words) {
    this.words = words;
  }

  /** Return the name of the group of a moment; a moment to come is of today, for clocks differ. */
  nameOf(moment) {
    const ago = daysSince(moment);
    if (ago < 8) return this.words.say(["today", "yesterday"][Math.max(0, ago)] ?? "previous-7-days");
    const isThisYear = moment.getFullYear() === new Date().getFullYear();
    return this.#format(moment, { month: "long", year: isThisYear ? undefined : "numeric" });
  }

  /** Return what the name of its group does not say of a moment. */
  timeOf(moment) {
    const ago = daysSince(moment);
    return this.#format(moment, ago < 2 ? TODAY : ago < 8 ? WEEK : OLDER);
  }

  wholeOf(moment) {
    return this.#format(moment, WHOLE);
  }

  /** The milliseconds until tomorrow. */
  get left() {
    const now = new Date();
    return new Date(now.getFullYear(), now.getMonth(), now.getDate() + 1) - now;
  }

  #format(moment, options) {
    return new Intl.DateTimeFormat(this.words.language, options).format(moment);
  }
}

const daysSince = (moment) => numberOf(new Date()) - numberOf(moment);

/** Number the days of the calendar: some have 23 hours, or 25. */
const numberOf = (moment) => Date.UTC(moment.getFullYear(), moment.getMonth(), moment.getDate()) / DAY;
