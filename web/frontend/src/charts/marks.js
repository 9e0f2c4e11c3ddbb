/**
 * Marks, drawn by hand: shapes, whiskers, hatching, text. Each is an element as ECharts' custom series takes it.
 *
 * @typedef {Record<string, any>} Element
 * @typedef {import("./look.js").Look} Look
 */
import { faint } from "./look.js";

/** Told apart without colour. */
export const SHAPES = ["circle", "square", "triangle", "diamond", "cross", "star"];

/** @type {Record<string, [number, number][]>} corners, in units of the radius */
const CORNERS = {
  square: [[-0.9, -0.9], [0.9, -0.9], [0.9, 0.9], [-0.9, 0.9]],
  triangle: [[0, -1.15], [1.1, 0.85], [-1.1, 0.85]],
  diamond: [[0, -1.25], [1.25, 0], [0, 1.25], [-1.25, 0]],
  cross: [
    [-0.4, -1.1], [0.4, -1.1], [0.4, -0.4], [1.1, -0.4], [1.1, 0.4], [0.4, 0.4],
    [0.4, 1.1], [-0.4, 1.1], [-0.4, 0.4], [-1.1, 0.4], [-1.1, -0.4], [-0.4, -0.4],
  ],
  star: Array.from({ length: 10 }, (_, index) => {
    const [angle, length] = [(Math.PI * index) / 5 - Math.PI / 2, index % 2 ? 0.6 : 1.4];
    return [Math.cos(angle) * length, Math.sin(angle) * length];
  }),
};

/**
 * @param {string} name one of SHAPES
 * @param {number} x
 * @param {number} y
 * @param {number} radius
 * @param {Record<string, any>} style
 * @param {Look} look
 * @returns {Element}
 */
export function shape(name, x, y, radius, style, look) {
  if (name === "circle") return pointed({ type: "circle", shape: { cx: x, cy: y, r: radius }, style }, look);
  const points = CORNERS[name].map(([across, down]) => [x + across * radius, y + down * radius]);
  return pointed({ type: "polygon", shape: { points }, style }, look);
}

/** Around a mark that is told apart from others of its kind. @param {number} x @param {number} y @param {number} radius @param {Look} look */
export function ring(x, y, radius, look) {
  const style = { fill: "none", stroke: look.text, lineWidth: 1.25 };
  return { type: "circle", shape: { cx: x, cy: y, r: radius }, style, silent: true };
}

/** A mark that has a strong edge while it is pointed at. @param {Element} element @param {Look} look @returns {Element} */
export function pointed(element, look) {
  return { ...element, emphasis: { style: { stroke: look.text, lineWidth: 2.5 } } };
}

/** @param {number[][]} points @param {Record<string, any>} style @returns {Element} */
export function line(points, style) {
  return { type: "polyline", shape: { points }, style: { fill: "none", ...style }, silent: true };
}

/**
 * @param {{x: number, y: number, width: number, height: number}} box
 * @param {Record<string, any>} style
 * @returns {Element}
 */
export function rect(box, style) {
  return { type: "rect", shape: box, style };
}

/**
 * @param {string} words
 * @param {number} x
 * @param {number} y middle of the line
 * @param {Look} look
 * @param {Record<string, any>} [style]
 * @returns {Element}
 */
export function text(words, x, y, look, style = {}) {
  const { size = look.size, ...rest } = style;
  const shared = { text: words, fill: look.soft, fontSize: size, fontFamily: look.font, verticalAlign: "middle" };
  return { type: "text", x, y, style: { ...shared, ...rest }, silent: true };
}

/**
 * An interval as a line with caps.
 * @param {[number, number]} from
 * @param {[number, number]} to
 * @param {Record<string, any>} style
 * @returns {Element[]}
 */
export function whisker(from, to, style, cap = 4) {
  const isUpright = from[0] === to[0];
  const [across, down] = isUpright ? [cap, 0] : [0, cap];
  const stroke = { lineWidth: 1.5, ...style };
  const ends = [from, to].map(([x, y]) => line([[x - across, y - down], [x + across, y + down]], stroke));
  return [line([from, to], stroke), ...ends];
}

/**
 * Hatching of the n-th kind, for fills that must be told apart without colour; the first is plain.
 * @param {number} index
 * @param {Look} look
 * @returns {Record<string, any>|null}
 */
export function hatching(index, look) {
  const shared = { color: faint(look.surface, 0.6), dashArrayX: [1, 0] };
  const kinds = [
    null,
    { ...shared, dashArrayY: [2, 5], rotation: -Math.PI / 4 },
    { ...shared, symbol: "circle", symbolSize: 0.7, dashArrayX: [[8, 8], [0, 8, 8, 0]], dashArrayY: [5, 0] },
    { ...shared, dashArrayY: [2, 5], rotation: Math.PI / 4 },
    { ...shared, dashArrayY: [2, 6], rotation: 0 },
    { ...shared, dashArrayY: [2, 6], rotation: Math.PI / 2 },
  ];
  return kinds[index % kinds.length];
}

/**
 * Hatching over a cell that must not be taken.
 * @param {Look} look
 */
export function crossedOut(look, ink = look.text) {
  return { color: faint(ink, 0.75), dashArrayX: [1, 0], dashArrayY: [1.5, 5], rotation: -Math.PI / 4 };
}
