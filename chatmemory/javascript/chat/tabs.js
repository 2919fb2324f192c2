// Where there is little room the two panels are tabs; else they are side by side, and no tabs at all.

const NAMES = ["chat", "memory"];

export class Tabs {
  constructor(panel) {
    this.panel = panel;
    for (const name of NAMES) {
      const tab = panel.part(`${name}-tab`);
      tab.addEventListener("click", () => this.#select(name));
      tab.addEventListener("keydown", ({ key }) => {
        if (!["ArrowLeft", "ArrowRight"].includes(key)) return;
        const other = NAMES[1 - NAMES.indexOf(name)];
        this.#select(other);
        panel.part(`${other}-tab`).focus();
      });
    }
    this.#select("chat");
    // The style sheet decides by the width that the project gives to the chat.
    new ResizeObserver(() => this.#setRoles()).observe(panel.root);
    this.#setRoles();
  }

  #select(name) {
    this.panel.part("panels").dataset.tab = name;
    for (const each of NAMES) {
      this.panel.part(`${each}-tab`).setAttribute("aria-selected", String(each === name));
      this.panel.part(`${each}-tab`).tabIndex = each === name ? 0 : -1;
    }
  }

  #setRoles() {
    const tabs = this.panel.part("tabs");
    const isNarrow = getComputedStyle(tabs).display !== "none";
    setRole(tabs, isNarrow && "tablist");
    for (const name of NAMES) {
      setRole(this.panel.part(`${name}-tab`), isNarrow && "tab");
      setRole(this.panel.part(`${name}-panel`), isNarrow && "tabpanel");
    }
  }
}

function setRole(element, name) {
  if (name) element.setAttribute("role", name);
  else element.removeAttribute("role");
}
