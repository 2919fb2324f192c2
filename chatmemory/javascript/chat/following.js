// Keeps a scrolled list at its end, unless somebody has scrolled away from there to read.

import { calm } from "./dom.js";

const NEAR = 80; // pixels from the end that still count as being there

/** Dispatches `change` when `isOn` or `hasMore` may be another one. */
export class Following extends EventTarget {
  #scroller;
  #isOn = true;
  #top = 0;
  #glance = Infinity; // how far up it scrolls by itself
  #hasMore = false;

  constructor(scroller) {
    super();
    this.#scroller = scroller;
    scroller.addEventListener("scroll", () => this.#look());
    // A phone's keyboard makes the list smaller, and a hidden tab comes back scrolled to its top.
    new ResizeObserver(() => {
      if (this.#isOn) this.#glance === Infinity && this.toEnd();
      else if (scroller.clientHeight) scroller.scrollTop = this.#top;
    }).observe(scroller);
  }

  /** Whether nobody reads further up. A scroll just now has sent no event yet. */
  get isOn() {
    this.#look();
    return this.#isOn;
  }

  /** Whether something came below since somebody reads further up. */
  get hasMore() {
    return this.#hasMore;
  }

  /** Note that something came below, which somebody who reads further up does not see. */
  grew() {
    if (this.isOn) return;
    this.#hasMore = true;
    this.dispatchEvent(new Event("change"));
  }

  toEnd(smooth = false) {
    this.#glance = Infinity;
    this.#fill(0);
    this.#turn(true);
    this.#scroller.scrollTo({ top: this.#scroller.scrollHeight, behavior: smooth && !calm() ? "smooth" : "instant" });
  }

  /** Show something further up, and go back to the end with the next `toEnd()`. */
  glanceAt(element) {
    const above = element.getBoundingClientRect().top - this.#scroller.getBoundingClientRect().top;
    this.#glance = this.#scroller.scrollTop + Math.min(0, above);
    element.scrollIntoView({ block: "nearest", behavior: calm() ? "instant" : "smooth" });
  }

  /** Scroll to something further up, and stay there. */
  goTo(element) {
    const { height } = element.getBoundingClientRect();
    this.put(element, { edge: "top", at: Math.max(0, (this.#scroller.clientHeight - height) / 2) });
  }

  /** Return where an element is: its upper edge if that is in sight, else its lower one. */
  placeOf(element) {
    const at = this.#edge(element, "top");
    return at < 0 ? { edge: "bottom", at: this.#edge(element, "bottom") } : { edge: "top", at };
  }

  /** Scroll until an element is at a place, even if too little is below it. */
  put(element, { edge, at }) {
    this.#glance = Infinity;
    this.#turn(false);
    this.#fill(0);
    this.#scroller.scrollTop += this.#edge(element, edge) - at;
    const rest = this.#edge(element, edge) - at;
    if (rest > 0) this.#fill(rest);
    this.#scroller.scrollTop += rest;
    this.#look();
  }

  #edge(element, edge) {
    return element.getBoundingClientRect()[edge] - this.#scroller.getBoundingClientRect().top;
  }

  /** Leave some pixels empty at the end. */
  #fill(pixels) {
    this.#scroller.style.setProperty("--chatmemory-empty", `${Math.ceil(pixels)}px`);
  }

  /** Find out whether somebody reads further up: only a reader scrolls up, while the list itself scrolls only down. */
  #look() {
    const { scrollHeight, scrollTop, clientHeight } = this.#scroller;
    if (!clientHeight) return;
    if (scrollHeight - scrollTop - clientHeight < NEAR) this.#turn(true);
    else if (scrollTop < Math.min(this.#top, this.#glance - 1)) this.#turn(false);
    this.#top = scrollTop;
  }

  #turn(isOn) {
    if (this.#isOn === isOn) return;
    this.#isOn = isOn;
    this.#hasMore = false;
    this.dispatchEvent(new Event("change"));
  }
}
