// What a person wants to know first: how the run stands, and how several of them compare.

import { element, fill, fillRegion, plainTable } from "./dom.js";
import { NONE, figures, fraction, isolated, percent, seconds, whole } from "./format.js";
import { seriesColour } from "./theme.js";

const WORDS = {
  used: "good", finished: "good", ready: "good", done: "good",
  running: "busy", training: "busy", "at work": "busy", benchmarking: "busy",
  late: "bad", failed: "bad", refused: "bad", unreadable: "bad",
  stopped: "warn", declined: "warn", cancelled: "warn",
};

export function stateOf(word, text = word) {
  return element("span", { class: `state ${WORDS[word] ?? ""}`.trim() }, text);
}

function tile(title, value, note, extra = null) {
  return element("div", {}, element("dt", {}, title),
    element("dd", {}, value, note ? element("small", {}, note) : null, extra));
}

export function showTiles(place, summary) {
  const of = summary.wanted ? `of ${whole(summary.wanted)}, ` : "";
  const progress = summary.wanted
    ? element("progress", { max: summary.wanted, value: summary.cycles, "aria-label": "Cycles done" }) : null;
  const seed = `seed ${summary.seed ?? "not known"}`;
  const now = summary.current ? `cycle ${summary.current} under way` : summary.reason || seed;
  const median = `${seconds(summary.cycle_s)} of ${seconds(summary.deadline_s)}`;
  fill(place,
    tile("State", stateOf(summary.state), now),
    tile("Cycles", whole(summary.cycles), `${of}${seconds(summary.clock_s)} in all`, progress),
    tile("Accuracy", fraction(summary.accuracy), `best ${fraction(summary.best)}`),
    tile("Loss", figures(summary.loss), `${whole(summary.batches)} batches averaged`),
    tile("Deadline held", percent(summary.held), `within 5 %; median ${median}`),
    tile("Late or missing", percent((summary.late ?? NaN) + (summary.missing ?? NaN)),
      `late ${percent(summary.late)}, missing ${percent(summary.missing)}`),
    tile("Devices", whole(summary.devices), `${percent(summary.used)} of updates used`));
}

const boxes = new Map();

// The runs, each with a box that says whether it is in the curves.
export function showRuns(place, runs, shown, toggle) {
  if (runs.length < 2) return;
  const titles = ["Run, and whether it is in the curves", "State", "Cycles", "Accuracy", "Seconds",
    "Deadline held"];
  const headings = titles.map((title, at) => ({ title, number: at > 1 }));
  const rows = runs.map((run) => [choice(run, shown, toggle), standing(run), whole(run.cycles),
    fraction(run.accuracy), figures(run.clock_s), percent(run.held)]);
  fillRegion(place, "Runs", plainTable("Runs", headings, rows));
}

function standing(run) {
  if (!run.reason) return stateOf(run.state);
  return element("div", { class: "standing", title: run.reason },
    stateOf(run.state), element("small", {}, run.reason));
}

function choice(run, shown, toggle) {
  let box = boxes.get(run.id);
  if (!box) {
    box = element("input", { type: "checkbox" });
    box.checked = shown.has(run.id);
    box.addEventListener("change", () => toggle(run.id, box.checked));
    boxes.set(run.id, box);
  }
  const swatch = element("span", { class: "swatch" });
  swatch.style.background = seriesColour(run.id);
  return element("label", { class: "choice" }, box, swatch, run.label);
}

// Groups of runs, and who is in none of them.
export function showComparison(place, { comparison: groups, left_out: absent, runs }) {
  if (runs.length < 2) return;
  const told = absent.map(({ run, why }) => `${isolated(runs[run].label)} (${isolated(why)})`);
  const left = told.length
    ? element("p", { class: "quiet" }, `Left out: ${told.join(", ")}.`) : null;
  fillRegion(place, "Comparison", element("h3", {}, "Compared"), ...comparedGroups(groups), left);
}

function comparedGroups(groups) {
  if (!groups.length) {
    return [element("p", { class: "quiet" }, "Fewer than two runs have come to their end.")];
  }
  const measures = Object.keys(groups[0].measures);
  const headings = ["scheme", "runs", ...measures]
    .map((title, at) => ({ title: capital(title), number: at > 0 }));
  const rows = groups.map((group) => [group.group, `${group.runs.length}`,
    ...measures.map((name) => margin(name, group.measures[name]))]);
  const single = groups.every((group) => group.runs.length < 2);
  const note = single
    ? "One run each: several seeds of the same settings would give 95 % intervals."
    : "Means over seeds, with Student's 95 % intervals.";
  return [element("p", { class: "quiet" }, note), plainTable("Comparison", headings, rows)];
}

function capital(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function margin(name, { mean, half }) {
  const share = ["deadlines held", "updates used"].includes(name);
  if (mean === null) return NONE;
  if (!half) return share ? percent(mean) : figures(mean, 4);
  const scale = share ? 100 : 1;
  // The margin with two figures, the mean with as many places.
  const places = Math.min(6, Math.max(0, 1 - Math.floor(Math.log10(scale * half))));
  return `${(scale * mean).toFixed(places)} ± ${(scale * half).toFixed(places)}${share ? " %" : ""}`;
}
