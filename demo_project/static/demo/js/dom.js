// Elements are made from text, never from markup: nobody knows what people and models say.

const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes and children. `true` is an attribute without a value; what is false or null is left out. */
export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same for a part of a picture. */
export function svg(tag, attributes = {}) {
  return fill(document.createElementNS(SVG, tag), attributes, []);
}

export const byId = (id) => document.getElementById(id);

export const count = (number) => number.toLocaleString("en");

/** "1 message", "2 messages". */
export const plural = (number, word) => `${count(number)} ${word}${number === 1 ? "" : "s"}`;

export const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

/** Tell those who do not see the page; what was told a moment ago is still read to its end. */
export function announce(text) {
  const line = el("p", {}, text);
  byId("status").append(line);
  setTimeout(() => line.remove(), 10_000);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}
