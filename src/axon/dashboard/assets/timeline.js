// Who did what when: some cycles side by side, a row for each device; only what is in sight is asked for.

import { element, fill, fillRegion, plainTable, say } from "./dom.js";
import { clipped, framed, prepared, whenResized } from "./canvas.js";
import { isolated, natural, seconds, whole } from "./format.js";
import { colour, onTheme } from "./theme.js";
import { BAR_ROW, PARTS, barLegend, drawCell, partsOf } from "./bars.js";

const HEAD = 26;
const MOST_HEIGHT = 440;
const GAP = 6;
const COUNTS = [1, 3, 6, 12, 24];

export class Timeline {
  constructor(place, source, statuses) {
    this.source = source;
    this.statuses = statuses;
    this.run = null;
    this.first = 0;
    this.count = window.innerWidth < 760 ? 3 : 6;
    this.total = 0;
    this.follows = true;
    this.answer = null;
    this.canvas = element("canvas", { tabindex: 0, role: "img" });
    this.space = element("div", { class: "gantt" }, this.canvas);
    this.scroll = element("div", { class: "scroll" }, this.space);
    this.readout = element("output", { class: "readout" });
    this.table = element("details", {}, element("summary", {}, "As a table"));
    this.table.addEventListener("toggle", () => this.fillTable());
    this.draw = framed(() => this.drawNow());
    fill(place, this.controls(), barLegend(), this.scroll, this.readout, this.table);
    this.scroll.addEventListener("scroll", () => this.ask());
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
    this.canvas.addEventListener("pointerleave", () => say(this.readout, ""));
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    whenResized(this.scroll, () => this.draw());
    onTheme(() => this.draw());
  }

  controls() {
    this.slider = element("input",
      { type: "range", min: 0, step: 1, value: 0, "aria-label": "First cycle shown" });
    this.slider.addEventListener("input", () => this.move(Number(this.slider.value)));
    this.latest = element("button", { type: "button", "aria-pressed": "true" }, "Latest");
    this.latest.addEventListener("click", () => this.move(this.total));
    const counts = element("select", { "aria-label": "Cycles shown" },
      ...COUNTS.map((count) => element("option", { value: count, selected: count === this.count },
        count === 1 ? "1 cycle" : `${count} cycles`)));
    counts.addEventListener("change", () => {
      this.count = Number(counts.value);
      this.move(this.follows ? this.total : this.first);
    });
    const button = (text, step) =>
      element("button", { type: "button", onclick: () => this.move(this.first + step()) }, text);
    return element("div", { class: "bar" }, button("Earlier", () => -this.count),
      button("Later", () => this.count), this.latest, this.slider, counts);
  }

  // Shows a run, whose newest cycles are followed until somebody goes back.
  show(run) {
    if (this.run !== run) {
      this.run = run;
      this.follows = true;
      this.scroll.scrollTop = 0;
    }
    this.devices = [...run.devices.values()].sort((one, other) => natural(one.name, other.name));
    this.total = this.source.total(run);
    if (this.follows) this.first = Math.max(0, this.total - this.count);
    this.ask();
  }

  move(first) {
    const last = Math.max(0, this.total - this.count);
    this.first = Math.min(Math.max(0, first), last);
    this.follows = this.first >= last;
    this.ask();
  }

  rowsInSight() {
    const height = Math.min(MOST_HEIGHT, HEAD + BAR_ROW * this.devices.length + 4);
    const first = Math.floor(this.scroll.scrollTop / BAR_ROW);
    const last = first + Math.ceil((height - HEAD) / BAR_ROW) + 1;
    return { height, first, last: Math.min(this.devices.length, last) };
  }

  async ask() {
    if (!this.run) return;
    if (this.asking) {
      this.again = true;
      return;
    }
    this.asking = true;
    const { first, last } = this.rowsInSight();
    const ids = this.devices.slice(first, last).map((device) => device.id);
    try {
      this.answer = await this.source.timeline(this.run.id, this.first, this.count, ids);
    } finally {
      this.asking = false;
    }
    this.arrange();
    if (this.again) {
      this.again = false;
      this.ask();
    }
  }

  arrange() {
    this.slider.max = Math.max(0, this.total - this.count);
    this.slider.value = this.first;
    const cycles = this.answer.cycles;
    if (cycles.length) {
      const last = cycles[cycles.length - 1].cycle;
      this.slider.setAttribute("aria-valuetext", `cycles ${cycles[0].cycle} to ${last}`);
    }
    this.latest.setAttribute("aria-pressed", this.follows);
    if (this.table.open) this.fillTable();
    this.draw();
  }

  drawNow() {
    if (!this.answer) return;
    const { height, first, last } = this.rowsInSight();
    this.scroll.style.maxHeight = `${height}px`;
    this.space.style.height = `${HEAD + BAR_ROW * this.devices.length + 4}px`;
    const { context, width } = prepared(this.canvas, height);
    const gutter = width < 560 ? 84 : 150;
    this.lay(gutter, width);
    const shift = this.scroll.scrollTop - first * BAR_ROW;
    this.top = (at) => HEAD + (at - first) * BAR_ROW - shift;
    const inSight = this.devices.slice(first, last);
    inSight.forEach((device, at) => this.drawRow(context, device, this.top(first + at)));
    context.fillStyle = colour("card");
    context.fillRect(0, 0, width, HEAD - 2);
    inSight.forEach((device, at) => {
      const y = this.top(first + at) + BAR_ROW / 2;
      if (y < HEAD) return;
      context.fillStyle = device.wrong ? colour("bad") : colour("ink");
      context.textAlign = "left";
      context.fillText(clipped(context, device.name, gutter - 14), 2, y);
    });
    for (const column of this.columns) this.drawHead(context, column, height);
    this.canvas.setAttribute("aria-label", this.described());
  }

  // Columns as wide as their cycles are long: what lies between two cycles is nobody's work.
  lay(gutter, width) {
    const cycles = this.answer.cycles;
    const lengths = cycles.map((cycle) => Math.max(cycle.ended - cycle.started, cycle.deadline || 0, 1e-9));
    const sum = lengths.reduce((one, other) => one + other, 0);
    const room = width - gutter - GAP * cycles.length - 4;
    let left = gutter;
    this.columns = cycles.map((cycle, at) => {
      const wide = (room * lengths[at]) / sum;
      const cells = new Map((cycle.cells || []).map((cell) => [cell[0], cell]));
      const column = { cycle, left, wide, scale: wide / lengths[at], cells };
      left += wide + GAP;
      return column;
    });
  }

  drawHead(context, column, height) {
    const { cycle, left, wide, scale } = column;
    context.fillStyle = colour("soft");
    context.textAlign = "left";
    const title = wide > 70 ? `cycle ${cycle.cycle}` : `${cycle.cycle}`;
    if (wide > 28) context.fillText(clipped(context, title, wide), left, 11);
    if (!cycle.cells) context.fillText(clipped(context, "detail is kept no longer", wide), left, HEAD + 12);
    if (!cycle.deadline) return;
    const x = Math.round(left + cycle.deadline * scale) + 0.5;
    context.strokeStyle = colour("ink");
    context.lineWidth = 1;
    context.setLineDash([3, 3]);
    context.beginPath();
    context.moveTo(x, HEAD - 6);
    context.lineTo(x, height);
    context.stroke();
    context.setLineDash([]);
  }

  drawRow(context, device, top) {
    for (const column of this.columns) {
      const cell = column.cells.get(device.id);
      if (cell) drawCell(context, column, this.parts(cell, column.cycle), top);
    }
  }

  parts(cell, cycle) {
    return partsOf(cell, cycle, this.statuses);
  }

  described() {
    const cycles = this.answer.cycles;
    if (!cycles.length) return "Timeline: no cycle has ended yet";
    const last = cycles[cycles.length - 1].cycle;
    return `Timeline of cycles ${cycles[0].cycle} to ${last} for ${this.devices.length} devices; `
      + "arrow keys move, and the table below tells the same";
  }

  point(event) {
    if (!this.columns) return;
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const row = y < HEAD ? -1
      : this.devices.findIndex((_, at) => y >= this.top(at) && y < this.top(at) + BAR_ROW);
    const column = this.columns.find((one) => x >= one.left && x <= one.left + one.wide);
    const cell = row >= 0 && column ? column.cells.get(this.devices[row].id) : null;
    say(this.readout, cell ? `${isolated(this.devices[row].name)}, ${this.told(cell, column.cycle)}` : "");
  }

  told(cell, cycle) {
    const [, status, , , answered, , planned, shards, reason] = cell;
    const parts = this.parts(cell, cycle).map(([name, from, to]) => `${name} ${seconds(to - from)}`);
    const plan = planned >= 0 ? `${whole(shards)} of ${whole(planned)} shards` : `${whole(shards)} shards`;
    const why = this.answer.reasons[reason];
    return [`cycle ${cycle.cycle}: ${this.statuses[status]}`, why && isolated(why), plan, ...parts,
      answered === null ? "no answer" : `answered after ${seconds(answered)}`].filter(Boolean).join(" · ");
  }

  key(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -this.count, PageDown: this.count }[event.key];
    const rows = { ArrowUp: -BAR_ROW, ArrowDown: BAR_ROW }[event.key];
    if (step === undefined && rows === undefined) return;
    event.preventDefault();
    if (step) this.move(this.first + step);
    if (rows) this.scroll.scrollTop += rows;
  }

  fillTable() {
    if (!this.table.open || !this.answer) return;
    const rows = this.answer.cycles.flatMap((cycle) => (cycle.cells || []).map((cell) => {
      const parts = this.parts(cell, cycle).map(([part, from, to]) => [part, seconds(to - from)]);
      const lengths = Object.fromEntries(parts);
      const name = this.run.devices.get(cell[0])?.name ?? "";
      return [`${cycle.cycle}`, name, this.statuses[cell[1]],
        ...[...PARTS, "missed"].map((part) => lengths[part] ?? "–")];
    }));
    const titles = ["Cycle", "Device", "Ended", "Download", "Train", "Upload", "Idle", "Missed"];
    const headings = titles.map((title, at) => ({ title, number: at === 0 || at > 2 }));
    fillRegion(this.table, "Timeline", plainTable("Timeline", headings, rows)).classList.add("tall");
  }
}
