// Numbers for people: as many digits as tell something, the unit beside them.

export const NONE = "–";

export function known(value) {
  return value !== null && value !== undefined && Number.isFinite(value);
}

export function whole(value) {
  return known(value) ? Math.round(value).toLocaleString("en") : NONE;
}

export function figures(value, digits = 3) {
  if (!known(value)) return NONE;
  const size = Math.abs(value);
  if (value !== 0 && (size < 1e-3 || size >= 1e6)) return value.toExponential(digits - 1);
  const places = value === 0 ? 0 : Math.max(0, digits - 1 - Math.floor(Math.log10(size)));
  return value.toLocaleString("en", { maximumFractionDigits: places });
}

export function fraction(value) {
  return known(value) ? value.toFixed(3) : NONE;
}

export function percent(value) {
  if (!known(value)) return NONE;
  const shown = 100 * value;
  return `${shown.toFixed(shown > 0 && shown < 10 ? 1 : 0)} %`;
}

export function seconds(value) {
  if (!known(value)) return NONE;
  const size = Math.abs(value);
  if (size < 1 && size > 0) return `${figures(1000 * value, 3)} ms`;
  if (size < 120) return `${figures(value, 3)} s`;
  if (size < 7200) return `${figures(value / 60, 3)} min`;
  return `${figures(value / 3600, 3)} h`;
}

export function rate(bytesPerSecond) {
  return known(bytesPerSecond) ? `${figures(bytesPerSecond / 1e6, 3)} MB/s` : NONE;
}

// A text that others wrote, for the middle of a line, whose order it cannot change.
export function isolated(text) {
  return /^[ -~]*$/.test(text) ? text : `\u2068${text}\u2069`;
}

// Compares names so that pi-2 stands before pi-10.
const collator = new Intl.Collator("en", { numeric: true });

export function natural(one, other) {
  return collator.compare(one, other);
}
