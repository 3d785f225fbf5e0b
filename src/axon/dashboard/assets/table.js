// A table of which only the rows in sight exist: sorted by its headings, filtered by a word.

import { element, fill, say } from "./dom.js";
import { framed } from "./canvas.js";
import { natural } from "./format.js";

const ROW = 38;
const SPARE = 6;

export class VirtualTable {
  // A column is { title, key, show, number, secondary, rest, value }: `show` gives a node or a
  // text, `value` what is sorted by; `rest` has the room that the others leave. `wrong` tells of a
  // row whether something is wrong with it, `filter` the text that is searched; `words` are what one
  // row, several and none are called.
  constructor(place, { caption, columns, wrong = () => false, filter, sort, words }) {
    Object.assign(this, { columns, wrong, filter, sort, words });
    this.rows = [];
    this.word = "";
    this.body = element("tbody");
    this.count = element("p", { class: "quiet", role: "status" });
    this.heads = columns.map((column) => this.head(column));
    this.table = element("table", { class: "virtual" }, element("caption", { class: "unseen" }, caption),
      element("thead", {}, element("tr", { "aria-rowindex": 1 }, ...this.heads)), this.body);
    this.scroll = element("div",
      { class: "scroll tall", tabindex: 0, role: "region", "aria-label": caption }, this.table);
    this.draw = framed(() => this.drawNow());
    this.scroll.addEventListener("scroll", this.draw);
    this.search = element("input",
      { type: "search", placeholder: "Find", "aria-label": `Find in ${caption}` });
    this.search.addEventListener("input", () => {
      this.word = this.search.value.toLowerCase();
      this.scroll.scrollTop = 0;
      this.arrange();
    });
    fill(place, element("div", { class: "bar" }, this.search, this.count), this.scroll);
  }

  head(column) {
    const button = element("button", { type: "button" }, column.title);
    button.addEventListener("click", () => {
      const again = this.sort && this.sort.key === column.key;
      this.sort = { key: column.key, down: again ? !this.sort.down : Boolean(column.number) };
      this.arrange();
    });
    return element("th", { scope: "col", class: classes(column) }, button);
  }

  show(rows) {
    this.all = rows;
    this.arrange();
  }

  arrange() {
    this.rows = this.all.filter((row) => this.filter(row).toLowerCase().includes(this.word));
    const sort = this.sort;
    this.columns.forEach((column, at) => {
      const mine = sort && sort.key === column.key;
      if (mine) this.heads[at].setAttribute("aria-sort", sort.down ? "descending" : "ascending");
      else this.heads[at].removeAttribute("aria-sort");
    });
    if (sort) {
      const column = this.columns.find((one) => one.key === sort.key);
      const value = column.value ?? ((row) => row[sort.key]);
      const sign = sort.down ? -1 : 1;
      this.rows.sort((one, other) => sign * compared(value(one), value(other), sort.down));
    }
    this.table.setAttribute("aria-rowcount", this.rows.length + 1);
    say(this.count, this.counted());
    this.search.hidden = this.scroll.hidden = !this.all.length;
    this.draw();
  }

  counted() {
    const all = this.all.length;
    if (!all) return this.words.none;
    const of = this.rows.length === all ? "" : ` of ${all}`;
    return `${this.rows.length}${of} ${all === 1 ? this.words.one : this.words.many}`;
  }

  drawNow() {
    const first = Math.max(0, Math.floor(this.scroll.scrollTop / ROW) - SPARE);
    const seen = Math.ceil((this.scroll.clientHeight || 432) / ROW) + 2 * SPARE;
    const last = Math.min(this.rows.length, first + seen);
    const rows = this.rows.slice(first, last).map((row, at) => this.row(row, first + at));
    fill(this.body, this.space(first), ...rows, this.space(this.rows.length - last));
  }

  row(row, at) {
    const cells = this.columns.map((column) => {
      const shown = column.show(row);
      // What is cut off can be read in full.
      const title = typeof shown === "string" && !column.number ? shown : null;
      return element("td", { class: classes(column), title }, shown);
    });
    return element("tr", { "aria-rowindex": at + 2, class: this.wrong(row) ? "wrong" : null }, ...cells);
  }

  space(rows) {
    const node = element("tr", { class: "space", "aria-hidden": "true" },
      element("td", { colspan: this.columns.length }));
    node.style.height = `${rows * ROW}px`;
    return node;
  }
}

function classes(column) {
  const found = ["number", "secondary", "rest"].filter((name) => column[name]);
  return found.length ? found.join(" ") : null;
}

// What is not known comes last, whichever way it is sorted.
function compared(one, other, down) {
  const [missing, too] = [one === null || one === undefined, other === null || other === undefined];
  if (missing || too) return (missing - too) * (down ? -1 : 1);
  return typeof one === "string" ? natural(one, other) : one - other;
}
