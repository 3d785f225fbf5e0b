// Light, dark, or as the system has it; and the colours that canvases draw with.

import { byId, say } from "./dom.js";

const CHOICES = ["auto", "light", "dark"];
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const listeners = [];

// A page from a file may not be allowed to remember anything.
function remembered() {
  try {
    return localStorage.getItem("axon-theme");
  } catch {
    return null;
  }
}

function remember(choice) {
  try {
    localStorage.setItem("axon-theme", choice);
  } catch {
    return;
  }
}

function apply(choice) {
  document.documentElement.dataset.theme = choice;
  const button = byId("theme");
  say(button, { auto: "Theme: auto", light: "Theme: light", dark: "Theme: dark" }[choice]);
  for (const redraw of listeners) redraw();
}

export function startTheme() {
  const found = remembered();
  let choice = CHOICES.includes(found) ? found : "auto";
  byId("theme").addEventListener("click", () => {
    choice = CHOICES[(CHOICES.indexOf(choice) + 1) % CHOICES.length];
    remember(choice);
    apply(choice);
  });
  dark.addEventListener("change", () => apply(choice));
  apply(choice);
}

export function onTheme(redraw) {
  listeners.push(redraw);
}

export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

// Okabe and Ito's colours, which people who see few colours tell apart too.
const SERIES = ["accent", "series-2", "series-3", "series-4", "series-5", "series-6", "series-7"];

export function seriesColour(place) {
  return colour(SERIES[place % SERIES.length]);
}
