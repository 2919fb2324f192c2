// Where there is little room beside a chat, the list is a drawer behind a button; else it is a part of the page.

export class Drawer {
  #button;
  #drawer;

  constructor(list) {
    this.#button = list.part("show");
    this.#drawer = list.part("drawer");
    const closer = list.part("close");
    this.#button.popoverTargetElement = closer.popoverTargetElement = this.#drawer;
    closer.popoverTargetAction = "hide";
    // What has the focus would be behind the drawer.
    this.#drawer.addEventListener("focusout", ({ relatedTarget }) => {
      if (relatedTarget && !this.#drawer.contains(relatedTarget)) this.close();
    });
    // The style sheet decides by the width that list and chat have.
    new ResizeObserver(() => this.#fold()).observe(list);
    this.#fold();
  }

  close() {
    if (this.#drawer.matches(":popover-open")) this.#drawer.hidePopover();
  }

  #fold() {
    this.#drawer.popover = getComputedStyle(this.#button).display === "none" ? null : "auto";
  }
}
