// Elements made by hand. Text is always text: nothing here reads markup, and nothing else makes nodes.

export function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.filter((child) => child !== null && child !== undefined).map(asNode));
  return node;
}

function asNode(child) {
  return child instanceof Node ? child : document.createTextNode(String(child));
}

export function fill(node, ...children) {
  node.replaceChildren(...children.filter((child) => child !== null).map(asNode));
  return node;
}

export function byId(id) {
  return document.getElementById(id);
}

// Sets a text only where it differs, so that a screen reader hears nothing twice.
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// Fills a part of the page that scrolls; it stays the same node, so that it stays where it was
// scrolled to when the facts change.
export function fillRegion(place, label, ...children) {
  let region = place.querySelector(":scope > .scroll");
  if (!region) {
    region = element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label });
    place.append(region);
  }
  fill(region, ...children);
  return region;
}

// Draws, and gives the focus back to a node that was moved meanwhile.
export function keepingFocus(draw) {
  const focused = document.activeElement;
  draw();
  const lost = focused && focused !== document.activeElement && focused.isConnected;
  if (lost) focused.focus({ preventScroll: true });
}

export function plainTable(caption, headings, rows) {
  return element("table", {},
    element("caption", { class: "unseen" }, caption),
    element("thead", {}, element("tr", {}, ...headings.map((heading) =>
      element("th", { scope: "col", class: heading.number ? "number" : null }, heading.title)))),
    element("tbody", {}, ...rows.map((row) =>
      element("tr", {}, ...row.map((cell, at) =>
        element("td", { class: headings[at].number ? "number" : null }, cell))))));
}
