// A dialog that asks something, does it, and stays open with an error if that fails.

export class Question {
  #answer = null; // what is done with the answer
  #settle = null;
  #isBusy = false;

  /** `explain(error)` shows in the dialog why it failed. */
  constructor(dialog, explain) {
    this.dialog = dialog;
    this.explain = explain;
    dialog.querySelector('[data-part="cancel"]').addEventListener("click", () => dialog.close());
    dialog.addEventListener("close", () => this.#settle(false));
    dialog.querySelector("form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#submit();
    });
  }

  /** Return whether the answer was yes, and `act` did not fail. */
  ask(act) {
    this.#answer = act;
    this.dialog.querySelector('[role="alert"]').hidden = true;
    this.dialog.showModal();
    return new Promise((settle) => (this.#settle = settle));
  }

  async #submit() {
    if (this.#isBusy) return;
    this.#isBusy = true;
    const settle = this.#settle; // the dialog may be closed, and opened again for something else
    try {
      await this.#answer();
      settle(true);
      if (settle === this.#settle) this.dialog.close();
    } catch (error) {
      this.explain(error);
    } finally {
      this.#isBusy = false;
    }
  }
}
