// Elements are made from text, never from markup: what people and models say may contain anything.

const SVG = "http://www.w3.org/2000/svg";

/** Return an element with attributes and children. `true` is an attribute without a value; false and null are left out. */
export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** Return an SVG element with attributes. */
export function svg(tag, attributes = {}) {
  return fill(document.createElementNS(SVG, tag), attributes, []);
}

/** Return whether a key belongs to an input method. Safari ends the composition before the Enter that ends it. */
export const isComposing = ({ isComposing, keyCode }) => isComposing || keyCode === 229;

export const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}
