// The way back for somebody who reads further up, and a word when there is something new below.

export class Newest {
  #button;

  constructor(panel, end) {
    this.#button = panel.part("newest");
    if (!this.#button) return; // the project's own template has none
    this.#button.addEventListener("click", () => {
      panel.part("scroller").focus({ preventScroll: true }); // the button goes away
      end.toEnd(true);
    });
    end.addEventListener("change", () => {
      this.#button.hidden = end.isOn;
      this.#button.textContent = panel.words.say(end.hasMore ? "new-below" : "newest");
    });
  }
}
