/** How charts write figures: as the pages do. */
const SPACE = "\u00a0";
const MINUS = "\u2212";
export const NONE = "\u2013";

/** @param {number|null|undefined} value @param {number} [digits] after the point */
export function number(value, digits = 3) {
  if (value === null || value === undefined || Number.isNaN(value)) return NONE;
  const text = value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  return /[1-9]/.test(text) ? text.replace("-", MINUS) : text.replace("-", "");
}

/** A whole number in groups of three digits. @param {number} value */
export function count(value) {
  return number(value, 0);
}

/** @param {number|null|undefined} share @param {number} [digits] */
export function percent(share, digits = 1) {
  return share === null || share === undefined ? NONE : `${number(share * 100, digits)}${SPACE}%`;
}

/** @param {number|null|undefined} share @param {number} [digits] */
export function signedPercent(share, digits = 1) {
  const text = percent(share, digits);
  return share && share > 0 && /[1-9]/.test(text) ? `+${text}` : text;
}

/** @param {number|null|undefined} value @param {string} unit @param {number} [digits] */
export function withUnit(value, unit, digits = 3) {
  const text = number(value, digits);
  if (text === NONE || !unit) return text;
  return unit === "\u00d7" ? text + unit : text + SPACE + unit;
}

/** @param {number[]} skip */
export function skipText(skip) {
  return skip.length ? `Skips ${skip.join(", ")}` : "Dense";
}

/** @param {number} amount @param {string} noun */
export function plural(amount, noun) {
  return `${count(amount)} ${noun}${amount === 1 ? "" : "s"}`;
}
