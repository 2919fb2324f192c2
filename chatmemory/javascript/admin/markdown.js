// A button that draws the texts of messages as Markdown, as the chat draws them. Else they are as they were written.

import { draw } from "../chat/markdown.js";

const KEY = "chatmemory-admin-markdown";

const texts = [...document.querySelectorAll("[data-markdown]")].map((element) => [element, element.textContent]);
const place = placeOfButton();

if (place && texts.length) {
  const { title, ...labels } = place.dataset;
  const button = document.createElement("button");
  Object.assign(button, { type: "button", className: "chatmemory-toggle", title, textContent: "Markdown" });
  button.addEventListener("click", () => {
    const isPressed = button.getAttribute("aria-pressed") !== "true";
    show(button, isPressed, labels);
    remember(isPressed);
  });
  button.setAttribute("aria-pressed", "false");
  if (remembered()) show(button, true, labels);
  place.append(button);
  place.hidden = false;
}

/** Return the first place that is seen at once: a page may have several lists, some of them folded. */
function placeOfButton() {
  const places = [...document.querySelectorAll(".chatmemory-look")];
  return places.find((each) => !each.closest("details")) ?? places[0];
}

function show(button, asMarkdown, labels) {
  button.setAttribute("aria-pressed", String(asMarkdown));
  for (const [element, text] of texts) {
    element.classList.toggle("chatmemory-markdown", asMarkdown);
    element.replaceChildren(asMarkdown ? draw(text, labels) : text);
  }
}

function remembered() {
  try {
    return localStorage.getItem(KEY) === "yes";
  } catch {
    return false; // the browser keeps nothing for this site
  }
}

function remember(asMarkdown) {
  try {
    if (asMarkdown) localStorage.setItem(KEY, "yes");
    else localStorage.removeItem(KEY);
  } catch {
    // Then it is for this page only.
  }
}
