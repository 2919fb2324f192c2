// On narrow screens the two panels are tabs; on wide ones they are side by side, and no tabs at all.

import { byId } from "./dom.js";

const NAMES = ["chat", "memory"];

export function showTabs() {
  const narrow = matchMedia("(max-width: 55.99rem)");
  narrow.addEventListener("change", () => setRoles(narrow.matches));
  setRoles(narrow.matches);
  for (const name of NAMES) {
    const tab = byId(`${name}-tab`);
    tab.addEventListener("click", () => select(name));
    tab.addEventListener("keydown", ({ key }) => {
      if (!["ArrowLeft", "ArrowRight"].includes(key)) return;
      const other = NAMES[1 - NAMES.indexOf(name)];
      select(other);
      byId(`${other}-tab`).focus();
    });
  }
  select("chat");
}

function select(name) {
  byId("panels").dataset.tab = name;
  for (const each of NAMES) {
    byId(`${each}-tab`).setAttribute("aria-selected", String(each === name));
    byId(`${each}-tab`).tabIndex = each === name ? 0 : -1;
  }
}

function setRoles(narrow) {
  byId("tabs").toggleAttribute("hidden", !narrow);
  role(byId("tabs"), narrow && "tablist");
  for (const name of NAMES) {
    const tab = byId(`${name}-tab`);
    role(tab, narrow && "tab");
    tab.setAttribute("aria-controls", `${name}-panel`);
    role(byId(`${name}-panel`), narrow && "tabpanel");
  }
}

function role(element, name) {
  if (name) element.setAttribute("role", name);
  else element.removeAttribute("role");
}
