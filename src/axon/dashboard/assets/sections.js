// Devices, failures, tasks, log and settings: what is read as tables.

import { byId, element, fill, fillRegion, plainTable, say } from "./dom.js";
import { NONE, figures, fraction, natural, percent, rate, seconds, whole } from "./format.js";
import { stateOf } from "./overview.js";
import { VirtualTable } from "./table.js";

const orNull = (value) => (value === null || Number.isNaN(value) ? null : value);

export function deviceTable(place) {
  const wrongs = (row) => row.late + row.failed + row.refused;
  return new VirtualTable(place, {
    caption: "Devices",
    one: "device",
    many: "devices",
    filter: (row) => `${row.name} ${row.state} ${row.reason}`,
    wrong: (row) => row.wrong,
    sort: { key: "name", down: false },
    columns: [
      { title: "Device", key: "name", show: (row) => row.name },
      { title: "State", key: "state", show: (row) => stateOf(row.state, stateText(row)) },
      { title: "Last seen", key: "seen_s", number: true, secondary: true, value: (row) => orNull(row.seen_s), show: seen },
      { title: "Samples/s", key: "samples_per_s", number: true, show: (row) => figures(row.samples_per_s) },
      { title: "Download", key: "download_s", number: true, secondary: true, show: (row) => seconds(row.download_s) },
      { title: "Upload", key: "upload_s", number: true, secondary: true, show: (row) => seconds(row.upload_s) },
      { title: "Link told", key: "bytes_per_s", number: true, secondary: true, show: (row) => rate(row.bytes_per_s) },
      { title: "Planned", key: "planned", number: true, secondary: true, show: (row) => (row.planned ? whole(row.planned) : "open") },
      { title: "Done", key: "shards", number: true, secondary: true, show: done },
      { title: "Used", key: "used", number: true, show: (row) => `${row.used}/${row.cycles}` },
      { title: "Missed", key: "missed", number: true, value: wrongs, show: (row) => `${wrongs(row)}` },
      { title: "Reason", key: "reason", secondary: true, show: (row) => row.reason },
    ],
  });
}

function stateText(row) {
  return row.state === "training" && row.total ? `training ${row.done}/${row.total}` : row.state;
}

function seen(row) {
  return row.seen_s === null ? NONE : `cycle ${row.cycle} · ${seconds(row.seen_s)}`;
}

function done(row) {
  return row.planned ? `${whole(row.done_of_planned)} (${percent(row.done_of_planned / row.planned)})` : whole(row.shards);
}

export function failureTable(place) {
  return new VirtualTable(place, {
    caption: "Failures",
    one: "kind of failure",
    many: "kinds of failure",
    none: "Nothing has gone wrong.",
    filter: (row) => `${row.device} ${row.status} ${row.reason}`,
    sort: { key: "last", down: true },
    columns: [
      { title: "Device", key: "device", show: (row) => row.device },
      { title: "What", key: "status", show: (row) => stateOf(row.status) },
      { title: "Times", key: "count", number: true, show: (row) => whole(row.count) },
      { title: "First cycle", key: "first", number: true, secondary: true, show: (row) => whole(row.first) },
      { title: "Last cycle", key: "last", number: true, show: (row) => whole(row.last) },
      { title: "Reason", key: "reason", show: (row) => row.reason || NONE },
    ],
  });
}

export function showBoard(board, cancel) {
  byId("tasks").hidden = !board;
  if (!board) return;
  const headings = ["Task", "State", "Cycle", "Accuracy", "Learners, shards × price", "May cost now", "Spent", "Reason"];
  const rows = board.tasks.map((task) => [
    task.name, stateOf(task.state), `${task.cycle}/${task.cycles}`, fraction(task.accuracy), learners(task),
    task.reserved ?? NONE, task.spent, task.reason || NONE,
  ]);
  if (board.may_cancel) {
    headings.push("");
    board.tasks.forEach((task, at) => rows[at].push(cancelButton(task, cancel)));
  }
  const numbers = new Set([2, 3, 5, 6]);
  const told = headings.map((title, at) => ({ title, number: numbers.has(at) }));
  const budget = board.budget === null ? "" : `; a cycle of all tasks may cost ${board.budget}`;
  const sitting = Object.entries(board.sitting).sort(([one], [other]) => natural(one, other));
  fillRegion(byId("board"), "Tasks",
    element("p", { class: "quiet" }, `Spent ${board.spent} in all${budget}. From ${board.place}.`),
    plainTable("Tasks", told, rows),
    ...sitting.map(([name, why]) => element("p", { class: "quiet" }, `${name} sits out: ${why}`)),
    element("p", { class: "quiet" }, board.may_cancel ? "" : "Read-only: tasks can be cancelled from a page that was started with --to and a key."));
}

function learners(task) {
  const parts = Object.entries(task.learners).sort(([one], [other]) => natural(one, other))
    .map(([name, shards]) => `${name}: ${shards}${task.prices[name] ? ` × ${task.prices[name]}` : ""}`);
  return parts.join(", ") || NONE;
}

// Kept, because a button that was made anew would forget that it was pressed once.
const buttons = new Map();

function cancelButton(task, cancel) {
  if (!["waiting", "running"].includes(task.state)) return "";
  if (buttons.has(task.name)) return buttons.get(task.name);
  const button = element("button", { type: "button", "aria-label": `Cancel ${task.name}` }, "Cancel");
  button.addEventListener("click", () => {
    // Twice, because what is cancelled cannot be taken up again.
    if (button.dataset.sure) {
      button.disabled = true;
      cancel(task.name);
    } else {
      button.dataset.sure = "yes";
      say(button, "Really?");
    }
  });
  buttons.set(task.name, button);
  return button;
}

export function showLog(place, entries) {
  const kinds = { cycle: "cycle", trouble: "trouble", state: "state" };
  const lines = entries.slice(-200).reverse().map((entry) =>
    element("li", { class: entry.kind === "trouble" ? "trouble" : null },
      element("span", {}, kinds[entry.kind] ?? ""), element("div", {}, entry.text)));
  fillRegion(place, "Log, newest first", element("ol", { class: "lines" }, ...lines)).classList.add("tall");
}

export function showSettings(place, run) {
  const told = { ...run.settings, ...run.versions, records: run.summary.place };
  const rows = Object.entries(told).map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value || NONE)));
  fill(place, element("dl", { class: "told" }, ...rows));
}
