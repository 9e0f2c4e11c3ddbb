/** Axes with round figures at their ends. */
import { percent, withUnit } from "./words.js";

/** @typedef {import("./look.js").Look} Look */
/** @typedef {{min: number, max: number, interval: number, digits: number}} Scale */

const STEPS = [1, 2, 2.5, 5, 10];

/**
 * The scale on which all values have a place, with about so many steps.
 * @param {(number|null|undefined)[]} values
 * @param {number} [steps]
 * @returns {Scale}
 */
export function scaleOf(values, steps = 5) {
  const known = values.flatMap((value) => (typeof value === "number" && Number.isFinite(value) ? [value] : []));
  let [low, high] = [Math.min(...known), Math.max(...known)];
  if (!known.length) [low, high] = [0, 1];
  const spread = high - low || Math.abs(high) * 0.1 || 1;
  // No mark stands on the edge, unless the edge is zero; and the padding does not cross it.
  low = low < 0 ? low - spread * 0.04 : Math.max(0, low - spread * 0.04);
  high = high > 0 ? high + spread * 0.04 : Math.min(0, high + spread * 0.04);
  const rough = (high - low) / steps;
  const power = 10 ** Math.floor(Math.log10(rough));
  const interval = power * (STEPS.find((step) => step * power >= rough * 0.999) ?? 10);
  const round = (/** @type {number} */ value) => Number(value.toPrecision(12));
  return {
    min: round(Math.floor(low / interval + 1e-9) * interval),
    max: round(Math.ceil(high / interval - 1e-9) * interval),
    interval: round(interval),
    digits: Math.max(0, -Math.floor(Math.log10(interval) + 1e-9) + (interval / power === 2.5 ? 1 : 0)),
  };
}

/** Figures of an axis as text. @param {Scale} scale @param {string} [unit] "share" writes them as percentages */
function writer({ digits }, unit = "") {
  if (unit === "share") return (/** @type {number} */ value) => percent(value, Math.max(0, digits - 2));
  return (/** @type {number} */ value) => withUnit(value, unit, digits);
}

/**
 * Px that the figures of an upright axis take.
 * @param {Scale} scale
 * @param {Look} look
 * @param {string} [unit]
 */
export function roomFor(scale, look, unit) {
  const write = writer(scale, unit);
  const steps = Math.round((scale.max - scale.min) / scale.interval);
  const words = Array.from({ length: steps + 1 }, (_, index) => write(scale.min + index * scale.interval));
  return Math.max(...words.map((word) => look.widthOf(word))) + 10;
}

/**
 * The option of an axis of figures.
 * @param {Scale} scale
 * @param {Look} look
 * @param {string} [unit] stands behind each figure
 */
export function valueAxis(scale, look, unit) {
  return {
    type: "value",
    min: scale.min,
    max: scale.max,
    interval: scale.interval,
    axisLabel: { ...labels(look), formatter: writer(scale, unit), hideOverlap: true },
    axisLine: { show: true, lineStyle: { color: look.grid } },
    axisTick: { show: false },
    splitLine: { lineStyle: { color: look.grid } },
  };
}

/**
 * The option of an axis of names.
 * @param {string[]} names
 * @param {Look} look
 * @param {{isVertical: boolean, room: number}} place `room`: px that a name may take
 */
export function nameAxis(names, look, { isVertical, room }) {
  return {
    type: "category",
    data: names,
    inverse: isVertical,
    axisLabel: { ...labels(look), interval: 0, width: room, overflow: isVertical ? "truncate" : "break" },
    axisLine: { lineStyle: { color: look.grid } },
    axisTick: { show: false },
  };
}

/** @param {Look} look */
function labels(look) {
  return { color: look.soft, fontSize: look.size, fontFamily: look.font };
}
