// The bars of the timeline: what a device did in one cycle, drawn.

import { element } from "./dom.js";
import { colour } from "./theme.js";

export const BAR_ROW = 24;
export const PARTS = ["download", "train", "upload", "idle"];
const MISSED = new Set(["late", "refused", "failed"]);

// The parts of a device's cycle, as [name, from, to] in seconds.
export function partsOf(cell, cycle, statuses) {
  const [, status, fetched, trained, answered, told] = cell;
  const length = cycle.ended - cycle.started;
  const word = statuses[status];
  const wrong = MISSED.has(word);
  const parts = [];
  let at = 0;
  const add = (name, until) => {
    if (until !== null && until > at) {
      parts.push([name, at, until]);
      at = until;
    }
  };
  if (word !== "declined" && word !== "not needed") {
    add("download", fetched);
    add("train", trained);
    if (told) add("upload", answered);
  }
  // Who came to nothing at the very end is seen all the same.
  add(wrong ? "missed" : "idle", Math.max(length, at + (wrong ? length * 0.02 : 0)));
  return parts;
}

export function drawCell(context, column, parts, top) {
  for (const [name, from, to] of parts) {
    const x = column.left + from * column.scale;
    const wide = Math.max((to - from) * column.scale, name === "idle" ? 0 : 1);
    if (name === "missed") {
      hatch(context, x, top + 4, wide, BAR_ROW - 8);
    } else {
      context.fillStyle = colour(name);
      const high = name === "idle" ? 4 : BAR_ROW - 8;
      context.fillRect(x, top + (BAR_ROW - high) / 2, wide, high);
    }
  }
}

// Not colour alone: what was missed is hatched.
function hatch(context, x, y, wide, high) {
  context.save();
  context.beginPath();
  context.rect(x, y, wide, high);
  context.clip();
  context.fillStyle = colour("bad-ground");
  context.fillRect(x, y, wide, high);
  context.strokeStyle = colour("bad");
  context.lineWidth = 1.5;
  context.beginPath();
  for (let at = x - high; at < x + wide; at += 6) {
    context.moveTo(at, y + high);
    context.lineTo(at + high, y);
  }
  context.stroke();
  context.restore();
}

export function barLegend() {
  return element("ul", { class: "legend" }, ...[...PARTS, "missed"].map((name) => {
    const swatch = element("span", { class: "swatch block" });
    swatch.style.background = name === "missed"
      ? "repeating-linear-gradient(135deg, var(--bad) 0 2px, var(--bad-ground) 2px 5px)" : `var(--${name})`;
    return element("li", {}, swatch, { upload: "upload, where the device tells it" }[name] ?? name);
  }), element("li", {}, element("span", { class: "swatch upright" }), "deadline"));
}
