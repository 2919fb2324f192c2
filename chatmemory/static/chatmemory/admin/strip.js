// What a bar is, below the strip: for the pointer and for the arrow keys. Without this file each bar has its title.

for (const figure of document.querySelectorAll(".chatmemory-strip")) explain(figure);

function explain(figure) {
  const line = figure.querySelector(".chatmemory-strip-says");
  const hint = line.textContent;
  line.hidden = false;
  const say = (link) => line.replaceChildren(...(link ? saying(link.dataset) : [hint]));
  const barOf = (target) => target.closest(".chatmemory-bars a");
  const focused = () => figure.querySelector(".chatmemory-bars a:focus");

  walkAlong(figure.querySelector(".chatmemory-bars"));
  showPage(figure);

  figure.addEventListener("pointerover", (event) => say(barOf(event.target) ?? focused()));
  figure.addEventListener("pointerleave", () => say(focused()));
  figure.addEventListener("focusin", (event) => say(barOf(event.target)));
  figure.addEventListener("focusout", () => say(null));
}

/** Return what the line shows of a bar: what it is, and its first words, which may be in any direction. */
function saying({ facts, words }) {
  if (!words) return [facts];
  const quote = document.createElement("bdi");
  quote.textContent = words;
  return [`${facts} · `, quote];
}

/** Make the drawing one stop of the Tab key, within which the arrow keys move. */
function walkAlong(drawing) {
  const links = [...drawing.querySelectorAll("a")];
  for (const link of links) {
    const title = link.querySelector("title");
    link.dataset.facts = title.textContent;
    link.setAttribute("aria-label", [title.textContent, link.dataset.words ?? ""].join(" ").trim());
    title.remove(); // the browser would show it over the line that says the same
    const place = link.getAttribute("href").split("#")[1];
    if (place && document.getElementById(place)) link.setAttribute("href", `#${place}`);
  }
  const box = drawing.parentElement;
  box.removeAttribute("tabindex");
  drawing.removeAttribute("aria-hidden");
  drawing.setAttribute("role", "presentation");

  let current = start(drawing, links);
  current.setAttribute("tabindex", "0");
  const enter = (link) => {
    current.setAttribute("tabindex", "-1");
    current = link;
    current.setAttribute("tabindex", "0");
  };
  // Not on the drawing itself: Chromium lets the Tab key stop at a drawing that listens for it.
  box.addEventListener("focusin", (event) => enter(event.target.closest("a") ?? current));
  box.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const to = next(event.key, links.indexOf(current), links.length);
    if (to === null) return;
    event.preventDefault();
    links[to].focus();
  });
}

/** Return the link that the Tab key reaches first: the last bar of the page, for there the strip opens. */
function start(drawing, links) {
  const shown = drawing.querySelector(".chatmemory-strip-page")?.getBBox();
  const end = shown ? shown.x + shown.width : Infinity;
  return links.findLast((link) => link.getBBox().x < end) ?? links[0];
}

/** Return the index to which a key leads; null if it leads to none. */
function next(key, index, length) {
  const forward = document.documentElement.dir === "rtl" ? "ArrowLeft" : "ArrowRight";
  if (key === "Home") return 0;
  if (key === "End") return length - 1;
  if (key === "ArrowRight" || key === "ArrowLeft") {
    return Math.max(0, Math.min(length - 1, index + (key === forward ? 1 : -1)));
  }
  return null;
}

/** Scroll the strip, and nothing else, to the page that is shown. */
function showPage(figure) {
  const box = figure.querySelector(".chatmemory-strip-box");
  const page = figure.querySelector(".chatmemory-strip-page");
  if (!page || box.scrollWidth <= box.clientWidth) return;
  const seen = box.getBoundingClientRect();
  const wanted = page.getBoundingClientRect();
  const isBackwards = document.documentElement.dir === "rtl";
  box.scrollLeft += isBackwards ? Math.min(0, wanted.left - seen.left) : Math.min(0, wanted.right - seen.right);
}
