/**
 * Kinds of configurations in a scatter: each has a shape and a colour of its own, and the more it matters the larger it is.
 *
 * @typedef {object} Configuration
 * @property {number[]} skip
 * @property {number} x
 * @property {number} y
 * @property {number|null} [low]
 * @property {number|null} [high]
 * @property {number} [level]
 * @property {boolean} feasible
 * @property {boolean} front
 * @property {boolean} selected
 * @property {string|null} [url]
 * @typedef {import("./look.js").Look} Look
 * @typedef {{label: string, shape: string, radius: number, style: Record<string, any>}} Kind
 */
import { faint } from "./look.js";
import { shape, whisker } from "./marks.js";

/** Level of the foremost marks. */
export const FRONT = 9;

/** From so many points on, the many are drawn smaller. */
const MANY = 400;

/**
 * @param {Look} look
 * @param {number} count of the points
 * @returns {Record<"below"|"feasible"|"front"|"selected"|"dense", Kind>} from the front to behind, which is
 *   also the order for keys
 */
export function kindsOf(look, count) {
  const [share, line] = count > MANY ? [0.7, 0.5] : [1, 1];
  const edge = { stroke: look.surface, lineWidth: 1 };
  return {
    dense: {
      label: "Dense",
      shape: "square",
      radius: 5.5,
      style: { fill: look.surface, stroke: look.text, lineWidth: 2 },
    },
    selected: { label: "Selected", shape: "star", radius: 9, style: { ...edge, fill: look.selected } },
    front: { label: "On the front", shape: "diamond", radius: 5.5, style: { ...edge, fill: look.front } },
    feasible: { label: "Feasible", shape: "circle", radius: 4.5 * share, style: { ...edge, lineWidth: line, fill: look.series[0] } },
    below: {
      label: "Below a floor",
      shape: "triangle",
      radius: 4 * share,
      style: { fill: faint(look.surface, 0.6), stroke: look.infeasible, lineWidth: 1.25 },
    },
  };
}

/** @param {Configuration} point @returns {"below"|"feasible"|"front"|"selected"} */
export function kindOf(point) {
  if (point.selected) return "selected";
  if (point.front) return "front";
  return point.feasible ? "feasible" : "below";
}

/** What is said about one beside its figures. @param {Configuration} point @returns {string} */
export function standing(point) {
  const words = [point.feasible ? "feasible" : "below a floor"];
  if (point.front) words.push("on the front");
  if (point.selected) words.push("selected");
  return words.join(", ");
}

/**
 * A series of marks.
 * @param {Kind} kind
 * @param {{x: number, y: number, low?: number|null, high?: number|null, point: object}[]} unsorted
 * @param {Look} look
 * @param {number} z
 */
export function marksOf(kind, unsorted, look, z) {
  const items = [...unsorted].sort((first, second) => first.x - second.x);
  return {
    type: "custom",
    name: kind.label,
    z,
    data: items.map(({ x, y, point }) => ({ value: [x, y], point })),
    renderItem(/** @type {{dataIndex: number}} */ { dataIndex }, /** @type {any} */ api) {
      const { x, y, low, high } = items[dataIndex];
      const [left, top] = api.coord([x, y]);
      const hasInterval = typeof low === "number" && typeof high === "number";
      const ends = hasInterval ? [low, high].map((each) => api.coord([x, each])) : [];
      const children = hasInterval ? whisker(ends[0], ends[1], { stroke: look.neutral, lineWidth: 1.25 }) : [];
      return { type: "group", children: [...children, shape(kind.shape, left, top, kind.radius, kind.style, look)] };
    },
  };
}

/** @param {Kind} kind @param {Look} look @returns {import("./legend.js").Entry} */
export function entryOf(kind, look) {
  const radius = Math.min(kind.radius, 7);
  return { label: kind.label, mark: (x, y) => [shape(kind.shape, x, y, radius, kind.style, look)] };
}
