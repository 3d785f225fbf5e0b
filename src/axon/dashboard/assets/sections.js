// Devices, failures, tasks, log and settings: what is read as tables.

import { byId, element, fill, fillRegion, plainTable, say } from "./dom.js";
import { NONE, figures, fraction, isolated, natural, percent, rate, seconds, whole } from "./format.js";
import { stateOf } from "./overview.js";
import { VirtualTable } from "./table.js";

const number = (title, key, show) => ({ title, key, show, number: true });
// What a narrow screen leaves out.
const less = (title, key, show) => ({ ...number(title, key, show), secondary: true });

export function deviceTable(place) {
  const wrongs = (row) => row.late + row.failed + row.refused;
  return new VirtualTable(place, {
    caption: "Devices",
    words: { one: "device", many: "devices", none: "Nothing is known of any device yet." },
    filter: (row) => `${row.name} ${row.state} ${row.reason}`,
    wrong: (row) => row.wrong,
    sort: { key: "name", down: false },
    columns: [
      { title: "Device", key: "name", show: (row) => row.name },
      { title: "State", key: "state", show: (row) => stateOf(row.state, stateText(row)) },
      { ...less("Last seen", "seen_s", seen), value: (row) => row.cycle || null },
      number("Samples/s", "samples_per_s", (row) => figures(row.samples_per_s)),
      less("Download", "download_s", (row) => seconds(row.download_s)),
      less("Upload", "upload_s", (row) => seconds(row.upload_s)),
      less("Link told", "bytes_per_s", (row) => rate(row.bytes_per_s)),
      less("Planned", "planned", (row) => (row.planned ? whole(row.planned) : "open")),
      less("Done", "shards", done),
      number("Used", "used", (row) => `${row.used}/${row.cycles}`),
      { ...number("Missed", "missed", (row) => `${wrongs(row)}`), value: wrongs },
      { title: "Reason", key: "reason", secondary: true, rest: true, show: (row) => row.reason },
    ],
  });
}

function stateText(row) {
  return row.state === "training" && row.total ? `training ${row.done}/${row.total}` : row.state;
}

function seen(row) {
  if (!row.cycle) return NONE;
  // When in the run is known once the cycle is recorded.
  return row.seen_s === null ? `cycle ${row.cycle}` : `cycle ${row.cycle} · ${seconds(row.seen_s)}`;
}

function done(row) {
  if (!row.planned) return whole(row.shards);
  return `${whole(row.done_of_planned)} (${percent(row.done_of_planned / row.planned)})`;
}

export function failureTable(place) {
  return new VirtualTable(place, {
    caption: "Failures",
    words: { one: "kind of failure", many: "kinds of failure", none: "No device was late, failed or was refused." },
    filter: (row) => `${row.device} ${row.status} ${row.reason}`,
    sort: { key: "last", down: true },
    columns: [
      { title: "Device", key: "device", show: (row) => row.device },
      { title: "What", key: "status", show: (row) => stateOf(row.status) },
      number("Times", "count", (row) => whole(row.count)),
      less("First cycle", "first", (row) => whole(row.first)),
      number("Last cycle", "last", (row) => whole(row.last)),
      { title: "Reason", key: "reason", rest: true, show: (row) => row.reason || NONE },
    ],
  });
}

const READ_ONLY = "Read-only: tasks can be cancelled from a page that was started with --to and a key.";

export function showBoard(board, cancel) {
  byId("tasks").hidden = !board;
  if (!board) return;
  const priced = board.tasks.some((task) => Object.keys(task.prices).length);
  const reserved = board.tasks.some((task) => task.reserved !== null);
  const columns = [
    { title: "Task", show: (task) => task.name },
    { title: "State", show: (task) => stateOf(task.state) },
    { title: "Cycle", number: true, show: (task) => `${task.cycle}/${task.cycles}` },
    { title: "Accuracy", number: true, show: (task) => fraction(task.accuracy) },
    { title: priced ? "Learners, shards × price" : "Learners, shards", show: learners },
    reserved && { title: "May cost now", number: true, show: (task) => task.reserved ?? NONE },
    { title: "Spent", number: true, show: (task) => task.spent },
    { title: "Reason", show: (task) => task.reason || NONE },
    board.may_cancel && { title: "", show: (task) => cancelButton(task, cancel) },
  ].filter(Boolean);
  const rows = board.tasks.map((task) => columns.map((column) => column.show(task)));
  const budget = board.budget === null ? "" : `; a cycle of all tasks may cost ${board.budget}`;
  const sitting = Object.entries(board.sitting).sort(([one], [other]) => natural(one, other));
  fillRegion(byId("board"), "Tasks",
    element("p", { class: "quiet" }, `Spent ${board.spent} in all${budget}. From ${board.place}.`),
    plainTable("Tasks", columns, rows),
    ...sitting.map(([name, why]) =>
      element("p", { class: "quiet" }, `${isolated(name)} sits out: ${isolated(why)}`)),
    board.may_cancel ? null : element("p", { class: "quiet" }, READ_ONLY));
}

function learners(task) {
  const parts = Object.entries(task.learners).sort(([one], [other]) => natural(one, other))
    .map(([name, shards]) => `${isolated(name)}: ${shards}${task.prices[name] ? ` × ${task.prices[name]}` : ""}`);
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
  const rows = Object.entries(told).map(([name, value]) =>
    element("div", {}, element("dt", {}, name), element("dd", {}, value || NONE)));
  fill(place, element("dl", { class: "told" }, ...rows));
}
