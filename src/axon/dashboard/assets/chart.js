// Lines over cycles or seconds: drawn on a canvas, read with the pointer, the arrow keys or as a table.

import { element, fill, fillRegion, plainTable, say } from "./dom.js";
import { figures, isolated, known } from "./format.js";
import { framed, prepared, ticks, whenResized } from "./canvas.js";
import { colour, onTheme } from "./theme.js";

const HEIGHT = 220;
const EDGE = { left: 46, right: 12, top: 10, bottom: 26 };
const MOST_ROWS = 200;

export class Chart {
  // `shown` writes a value, `mark` one beside the axis; `bounds` fixes the ends of the axis,
  // whose upper end is never below `least`.
  constructor(place, { title, shown = figures, mark = figures, bounds = [null, null], least = 0 }) {
    this.least = least;
    this.mark = mark;
    this.title = title;
    this.shown = shown;
    this.bounds = bounds;
    this.series = [];
    this.across = "cycle";
    this.at = null;
    this.canvas = element("canvas", { tabindex: 0, role: "img" });
    this.heading = element("h3", {}, title);
    this.legend = element("ul", { class: "legend" });
    this.readout = element("output", { class: "readout" });
    this.table = element("details", {}, element("summary", {}, "As a table"));
    this.table.addEventListener("toggle", () => this.fillTable());
    fill(place, element("figure", {},
      element("figcaption", {}, this.heading, this.legend),
      element("div", {}, this.canvas), this.readout, this.table));
    this.draw = framed(() => this.drawNow());
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
    this.canvas.addEventListener("pointerleave", () => this.select(null));
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    whenResized(this.canvas.parentElement, this.draw);
    onTheme(this.draw);
  }

  // Says of which run it is, where it shows one of several.
  belongTo(label) {
    say(this.heading, label ? `${this.title}, of ${isolated(label)}` : this.title);
  }

  // A series is { label, colour, dashed, points: [[x, y], ...] } with a function for its colour.
  show(series, across) {
    this.series = series.filter((one) => one.points.length);
    this.across = across;
    fill(this.legend, ...this.series.map((one) => {
      const swatch = element("span", { class: one.dashed ? "swatch dashed" : "swatch" });
      swatch.style[one.dashed ? "borderColor" : "background"] = one.colour();
      return element("li", {}, swatch, one.label);
    }));
    this.canvas.setAttribute("aria-label", this.described());
    if (this.table.open) this.fillTable();
    this.draw();
  }

  described() {
    const told = this.series.slice(0, 8).map((one) => {
      const last = one.points[one.points.length - 1];
      return `${isolated(one.label)} ends at ${this.shown(last[1])}`;
    });
    return `${this.title} by ${this.across}: ${told.join("; ") || "nothing yet"}`;
  }

  range() {
    const [xs, ys] = [[], []];
    for (const one of this.series) {
      for (const [x, y] of one.points) {
        xs.push(x);
        ys.push(y);
      }
    }
    const lowest = ys.reduce((one, other) => Math.min(one, other), Infinity);
    const highest = ys.reduce((one, other) => Math.max(one, other), -Infinity);
    const low = this.bounds[0] ?? lowest;
    const high = Math.max(this.bounds[1] ?? highest, this.least, low + 1e-9);
    const room = this.bounds[1] === null ? 0.06 * (high - low) : 0;
    return {
      left: xs.reduce((one, other) => Math.min(one, other), Infinity),
      right: xs.reduce((one, other) => Math.max(one, other), -Infinity),
      low: this.bounds[0] === null ? low - room : low,
      high: high + room,
    };
  }

  drawNow() {
    const { context, width, height } = prepared(this.canvas, HEIGHT);
    if (!this.series.length) {
      context.fillStyle = colour("soft");
      context.fillText("Nothing yet", EDGE.left, height / 2);
      return;
    }
    const range = this.range();
    const span = Math.max(range.right - range.left, 1e-9);
    this.x = (value) => EDGE.left
      + (range.right > range.left ? (value - range.left) / span : 0.5) * (width - EDGE.left - EDGE.right);
    this.y = (value) => height - EDGE.bottom
      - ((value - range.low) / (range.high - range.low)) * (height - EDGE.top - EDGE.bottom);
    this.drawAxes(context, range, width, height);
    for (const one of this.series) this.drawLine(context, one);
    if (this.at !== null) this.drawCursor(context, height);
  }

  drawAxes(context, range, width, height) {
    context.lineWidth = 1;
    context.strokeStyle = colour("line");
    context.fillStyle = colour("soft");
    context.textAlign = "right";
    for (const value of ticks(range.low, range.high, 4)) {
      const y = Math.round(this.y(value)) + 0.5;
      context.beginPath();
      context.moveTo(EDGE.left, y);
      context.lineTo(width - EDGE.right, y);
      context.stroke();
      context.fillText(this.mark(value), EDGE.left - 8, y);
    }
    context.textAlign = "center";
    const places = ticks(range.left, range.right, Math.max(2, Math.floor(width / 110)));
    for (const value of places.filter((one) => this.across !== "cycle" || Number.isInteger(one))) {
      const x = Math.min(Math.max(this.x(value), EDGE.left + 8), width - EDGE.right - 12);
      context.fillText(figures(value, 6), x, height - 10);
    }
  }

  drawLine(context, one) {
    context.strokeStyle = context.fillStyle = one.colour();
    context.lineWidth = one.dashed ? 1.25 : 2;
    context.lineJoin = "round";
    context.setLineDash(one.dashed ? [5, 4] : []);
    context.beginPath();
    for (const [x, y] of one.points) context.lineTo(this.x(x), this.y(y));
    context.stroke();
    context.setLineDash([]);
    if (one.dashed || one.points.length > 40) return;
    for (const [x, y] of one.points) {
      context.beginPath();
      context.arc(this.x(x), this.y(y), 2.5, 0, 7);
      context.fill();
    }
  }

  drawCursor(context, height) {
    const x = Math.round(this.x(this.at)) + 0.5;
    context.strokeStyle = colour("soft");
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(x, EDGE.top);
    context.lineTo(x, height - EDGE.bottom);
    context.stroke();
  }

  places() {
    return [...new Set(this.series.flatMap((one) => one.points.map(([x]) => x)))].sort((a, b) => a - b);
  }

  point(event) {
    if (!this.series.length || !this.x) return;
    const pointer = event.clientX - this.canvas.getBoundingClientRect().left;
    let best = null;
    for (const place of this.places()) {
      if (best === null || Math.abs(this.x(place) - pointer) < Math.abs(this.x(best) - pointer)) best = place;
    }
    this.select(best);
  }

  key(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step === undefined || !this.series.length) return;
    event.preventDefault();
    const places = this.places();
    const now = this.at === null ? (step > 0 ? -1 : places.length) : places.indexOf(this.at);
    this.select(places[Math.min(Math.max(now + step, 0), places.length - 1)]);
  }

  select(place) {
    this.at = place;
    const parts = place === null ? [] : this.series.flatMap((one) => {
      const found = one.points.find(([x]) => x === place);
      return found && known(found[1]) ? [`${isolated(one.label)} ${this.shown(found[1])}`] : [];
    });
    const where = this.across === "cycle" ? `Cycle ${figures(place, 6)}` : `${figures(place, 5)} s`;
    say(this.readout, place === null ? "" : `${where}: ${parts.join(" · ")}`);
    this.draw();
  }

  fillTable() {
    if (!this.table.open) return;
    const places = this.places();
    const step = Math.ceil(places.length / MOST_ROWS);
    const kept = places.filter((_, at) => at % step === 0 || at === places.length - 1);
    const maps = this.series.map((one) => new Map(one.points));
    const rows = kept.map((place) => [figures(place, 6),
      ...maps.map((map) => (map.has(place) ? this.shown(map.get(place)) : "–"))]);
    const headings = [this.across === "cycle" ? "Cycle" : "Seconds", ...this.series.map((one) => one.label)];
    const table = plainTable(this.title, headings.map((title) => ({ title, number: true })), rows);
    fillRegion(this.table, this.title, table).classList.add("tall");
  }
}
