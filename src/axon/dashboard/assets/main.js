// Puts the page together, and keeps it up to date.

import { byId, element, fill, keepingFocus, say } from "./dom.js";
import { figures, fraction, isolated, percent } from "./format.js";
import { keepChoices, readChoices } from "./place.js";
import { Chart } from "./chart.js";
import { Run } from "./run.js";
import { Timeline } from "./timeline.js";
import { showComparison, showRuns, showTiles } from "./overview.js";
import { deviceTable, failureTable, showBoard, showLog, showSettings } from "./sections.js";
import { colour, onTheme, seriesColour, startTheme } from "./theme.js";
import { openSource } from "./source.js";

const MOST_SHOWN = 12;
const OF_ONE_RUN = ["overview", "timeline", "devices", "failures", "log", "settings"];
const OF_RUNS = ["learning", "deadline", ...OF_ONE_RUN.slice(1)];

class Page {
  constructor(source, first) {
    this.source = source;
    this.runs = new Map();
    this.shown = new Set();
    this.met = 0;
    this.chosen = 0;
    this.wanted = readChoices();
    this.across = "cycle";
    this.pulling = false;
    this.charts = {
      accuracy: new Chart(byId("accuracy"), { title: "Accuracy", shown: fraction, bounds: [0, 1] }),
      loss: new Chart(byId("loss"), { title: "Loss", bounds: [0, null] }),
      duration: new Chart(byId("duration"), { title: "Seconds per cycle", bounds: [0, null] }),
      truancy: new Chart(byId("truancy"), {
        title: "Learners late, missing or left out",
        shown: percent,
        mark: (value) => `${figures(100 * value)} %`,
        bounds: [0, null],
        least: 0.1,
      }),
    };
    this.timeline = new Timeline(byId("gantt"), source, first.statuses);
    this.devices = deviceTable(byId("fleet"));
    this.failures = failureTable(byId("failed"));
    this.arrangeControls();
    onTheme(() => this.latest && this.drawAll());
  }

  arrangeControls() {
    const sections = [...document.querySelectorAll("main > section")];
    fill(byId("sections"), ...sections.map((section) => element("li", { id: `to-${section.id}` },
      element("a", { href: `#${section.id}` }, section.querySelector("h2").textContent))));
    byId("run").addEventListener("change", (event) => {
      this.chosen = Number(event.target.value);
      this.keep();
      this.pull();
    });
    // Whoever goes to a section takes along what is chosen.
    window.addEventListener("hashchange", () => this.keep());
    for (const [value, title] of [["cycle", "cycles"], ["time", "seconds"]]) {
      const radio = element("input", { type: "radio", name: "across", value });
      radio.checked = value === this.across;
      radio.addEventListener("change", () => {
        this.across = value;
        this.drawCurves();
      });
      byId("across").append(element("label", {}, radio, ` ${title}`));
    }
  }

  // All runs in a few numbers have come; what is shown of them in full is asked for if it is new.
  hear(all) {
    // Another server at the same address: nothing that is known here is true of it.
    if (this.latest && this.latest.server !== all.server) {
      location.reload();
      return null;
    }
    this.latest = all;
    // Runs may come while the page is open.
    for (; this.met < all.runs.length; this.met += 1) this.meet(all.runs[this.met]);
    return this.pull();
  }

  meet({ id, label }) {
    const { run, on, off } = this.wanted;
    if (on.has(label) || (id < MOST_SHOWN && !off.has(label))) this.shown.add(id);
    if (label === run) this.chosen = id;
  }

  keep() {
    if (!this.latest) return;
    const labels = (wanted) => this.latest.runs.filter(wanted).map((run) => run.label);
    keepChoices({
      run: this.chosen ? this.latest.runs[this.chosen].label : null,
      on: labels((run) => run.id >= MOST_SHOWN && this.shown.has(run.id)),
      off: labels((run) => run.id < MOST_SHOWN && !this.shown.has(run.id)),
    });
  }

  async pull() {
    if (this.pulling) {
      this.again = true;
      return;
    }
    this.pulling = true;
    const turned = [];
    try {
      for (const summary of this.latest.runs) {
        if (!this.shown.has(summary.id) && summary.id !== this.chosen) continue;
        const run = this.runs.get(summary.id) ?? new Run(summary.id);
        this.runs.set(summary.id, run);
        if (run.summary && summary.stamp <= run.since) continue;
        const changed = run.take(await this.source.run(summary.id, run.since));
        if (summary.id === this.chosen) turned.push(...changed);
      }
      this.drawAll();
    } catch (error) {
      this.connected(false, String(error));
    } finally {
      this.pulling = false;
    }
    this.announce(turned);
    if (this.again) {
      this.again = false;
      this.pull();
    }
  }

  drawAll() {
    keepingFocus(() => this.drawTables());
    this.drawCurves();
  }

  drawTables() {
    this.drawChoice();
    showRuns(byId("runs"), this.latest.runs, this.shown, (id, on) => this.toggle(id, on));
    showComparison(byId("comparison"), this.latest);
    showBoard(this.latest.board, (task) => this.cancel(task));
    this.arrangeSections();
    const run = this.runs.get(this.chosen);
    if (!run || !run.summary) return;
    showTiles(byId("tiles"), run.summary);
    this.timeline.show(run);
    this.devices.show([...run.devices.values()]);
    this.failures.show([...run.failures.values()]);
    showLog(byId("lines"), run.log);
    showSettings(byId("configured"), run);
  }

  // Hides what has nothing to show, and says of which run the rest is.
  arrangeSections() {
    const { runs, board, problems } = this.latest;
    const hide = (id, hidden) => {
      byId(id).hidden = byId(`to-${id}`).hidden = hidden;
    };
    for (const id of OF_RUNS) hide(id, !runs.length);
    hide("overview", !runs.length && board !== null);
    hide("tasks", board === null);
    byId("none").hidden = runs.length > 0;
    byId("problems").hidden = !problems.length;
    say(byId("problems"), problems.map((problem) => `${problem}; asking again.`).join(" "));
    const label = runs.length > 1 ? runs[this.chosen].label : "";
    for (const id of OF_ONE_RUN) {
      const heading = byId(`${id}-title`);
      const of = heading.querySelector(".of") ?? heading.appendChild(element("bdi", { class: "of" }));
      say(of, label ? ` of ${label}` : "");
    }
    this.charts.truancy.belongTo(label);
  }

  drawChoice() {
    const runs = this.latest.runs;
    byId("pick-run").hidden = runs.length < 2;
    const select = byId("run");
    if (select.options.length !== runs.length) {
      fill(select, ...runs.map((run) =>
        element("option", { value: run.id, selected: run.id === this.chosen }, run.label)));
    }
    const run = runs[this.chosen];
    const title = run ? run.label : this.latest.board ? "tasks" : "no run yet";
    say(byId("title"), title);
    const done = run && run.state === "running" ? ` · ${run.cycles} cycles` : "";
    document.title = `${title}${done} · Axon`;
    const note = this.source.live ? "Nothing on this page leaves this machine." : this.source.note;
    say(byId("colophon"), `Axon ${this.latest.version}. ${note}`);
  }

  drawCurves() {
    const runs = [...this.runs.values()].filter((run) => run.summary && this.shown.has(run.id));
    runs.sort((one, other) => one.id - other.id);
    for (const name of ["accuracy", "loss"]) {
      const lines = runs.map((run) => this.line(run, "learning", name, run.summary.label));
      this.charts[name].show(lines, this.across);
    }
    const several = runs.length > 1;
    const deadlines = several ? runs.filter((run) => run.id === this.chosen) : runs;
    this.charts.duration.show([
      ...runs.map((run) => this.line(run, "timing", "duration", several ? run.summary.label : "cycle")),
      ...deadlines.map((run) => {
        const label = several ? `deadline of ${isolated(run.summary.label)}` : "deadline";
        const line = this.line(run, "timing", "deadline", label);
        return { ...line, dashed: true, colour: () => colour("soft") };
      }),
    ], this.across);
    const run = this.runs.get(this.chosen);
    const shares = run && run.summary ? [["late", "warn"], ["missing", "bad"], ["other", "soft"]] : [];
    this.charts.truancy.show(shares.map(([name, shade]) => ({
      ...this.line(run, "timing", name, name === "other" ? "declined or refused" : name),
      colour: () => colour(shade),
    })), this.across);
  }

  line(run, table, column, label) {
    return { label, colour: () => seriesColour(run.id), points: run.points(table, column, this.across) };
  }

  toggle(id, on) {
    if (on) this.shown.add(id);
    else this.shown.delete(id);
    this.keep();
    this.pull();
  }

  async cancel(task) {
    try {
      await this.source.cancel(task, this.latest.token);
      say(byId("announcer"), `${task} is cancelled`);
    } catch (error) {
      say(byId("announcer"), `${task} was not cancelled: ${error.message}`);
    }
  }

  announce(turned) {
    if (!turned.length) return;
    const told = turned.slice(0, 3).map((device) =>
      `${isolated(device.name)} ${device.state}${device.reason ? `: ${isolated(device.reason)}` : ""}`);
    const more = turned.length > 3 ? `, and ${turned.length - 3} more` : "";
    say(byId("announcer"), told.join("; ") + more);
  }

  connected(live, problem = "") {
    const node = byId("connection");
    node.className = live ? "" : "lost";
    say(node, live ? "● Live" : problem || "Not connected; trying again");
  }
}

async function start() {
  startTheme();
  const source = openSource();
  const first = await source.runs();
  const page = new Page(source, first);
  await page.hear(first);
  // A browser goes to a section by itself only where nothing else stands behind the #.
  const { section } = readChoices();
  if (section) byId(section)?.scrollIntoView();
  if (source.live) source.follow((all) => page.hear(all), (live) => page.connected(live));
  else say(byId("connection"), "Report");
}

start().catch((error) => {
  byId("connection").className = "lost";
  say(byId("connection"), `The page could not be started: ${error.message}`);
});
