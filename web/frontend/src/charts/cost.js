/**
 * What a verification step costs against how much is skipped.
 *
 * Data: `{x, y, points: [{skip, x, y, low, high, feasible, front, selected, timed, url}]}`: `x` is the share of layers that
 * are skipped, `y` the cost as a ratio to dense; `low` and `high` may be null. `timed`: the cost was timed itself, and does
 * not come from the fitted model; then a ring stands around the mark. One configuration may have both.
 *
 * @typedef {import("./look.js").Look} Look
 * @typedef {import("./configurations.js").Configuration & {timed?: boolean}} Configuration
 */
import { roomFor, scaleOf, valueAxis } from "./axes.js";
import { entryOf, FRONT, kindOf, kindsOf, marksOf, standing } from "./configurations.js";
import { frame, legendOf } from "./legend.js";
import { line, ring, text } from "./marks.js";
import { number, percent, plural, skipText } from "./words.js";

const DENSE = 1;
const RING = 10;

/**
 * @param {{x: string, y: string, points: Configuration[]}} data
 * @param {Look} look
 * @param {number} width
 * @returns {import("./figure.js").Picture}
 */
export function cost(data, look, width) {
  const { points } = data;
  if (!points.length) return { empty: "No cost has been measured yet." };
  const kinds = kindsOf(look, points.length);
  /** @type {Record<string, any[]>} */
  const items = { below: [], feasible: [], front: [], selected: [], dense: [] };
  for (const point of points) items[kindOf(point)].push({ ...point, point: about(point, data) });
  const x = scaleOf([0, ...points.map((point) => point.x)], width < 500 ? 4 : 7);
  const y = scaleOf([DENSE, ...points.flatMap((point) => [point.y, point.low, point.high])]);
  const shown = Object.entries(kinds).filter(([key]) => items[key].length);
  const style = { stroke: look.text, lineWidth: 1, lineDash: [5, 4] };
  const timed = points.filter((point) => point.timed);
  const ringAt = (/** @type {number} */ left, /** @type {number} */ top) => [ring(left, top, RING - 3, look)];
  const legend = legendOf(
    [
      ...shown.map(([, kind]) => entryOf(kind, look)),
      ...(timed.length ? [{ label: "Timed itself", mark: ringAt }] : []),
      { label: "Cost of dense", mark: (left, top) => [line([[left - 8, top], [left + 8, top]], style)] },
    ],
    look,
    width,
  );
  const top = legend.height + look.size * 2;
  return {
    option: {
      grid: { left: roomFor(y, look), right: 16, top, bottom: look.size * 3.2, outerBoundsMode: "none" },
      xAxis: valueAxis(x, look, "share"),
      yAxis: valueAxis(y, look),
      series: [
        denseLine(x, style),
        ...shown.map(([key, kind], index) => marksOf(kind, items[key], look, FRONT - index)),
        ringsAround(timed, look),
        frame([...legend.elements, text(data.y, 0, legend.height + look.size * 0.6, look)]),
      ],
    },
    xName: data.x,
    summary: `${plural(points.length, "cost")}, ${timed.length} of them timed, the others from the cost model`,
  };
}

/** @param {Configuration} point @param {{x: string, y: string}} data @returns {import("./figure.js").Point} */
function about(point, data) {
  const hasInterval = typeof point.low === "number" && typeof point.high === "number";
  return {
    title: skipText(point.skip),
    facts: [
      [data.x, percent(point.x)],
      [data.y, number(point.y)],
      ...(hasInterval ? [/** @type {[string, string]} */ (["Interval", `${number(point.low)} to ${number(point.high)}`])] : []),
      ["Where from", point.timed ? "timed itself" : "fitted: from the cost model"],
      ["Standing", standing(point)],
    ],
    url: point.url,
  };
}

/** @param {Configuration[]} timed @param {Look} look */
function ringsAround(timed, look) {
  return {
    type: "custom",
    silent: true,
    z: FRONT + 1,
    data: timed.map(({ x, y }) => [x, y]),
    renderItem(/** @type {{dataIndex: number}} */ { dataIndex }, /** @type {any} */ api) {
      const [left, top] = api.coord([timed[dataIndex].x, timed[dataIndex].y]);
      return ring(left, top, RING, look);
    },
  };
}

/** @param {import("./axes.js").Scale} x @param {Record<string, any>} style */
function denseLine(x, style) {
  return {
    type: "custom",
    silent: true,
    z: 1,
    data: [[x.min, DENSE]],
    renderItem: (/** @type {object} */ _, /** @type {any} */ api) =>
      line([api.coord([x.min, DENSE]), api.coord([x.max, DENSE])], style),
  };
}
