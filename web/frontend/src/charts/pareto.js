/**
 * The Pareto front of a search: accept length against the task's metric, with the box of what is feasible.
 *
 * Data: `{x, y, dense: {x, y}, floors: {x, y}, points: [{skip, x, y, level, feasible, front, selected, url}], shown, total}`,
 * where the outer `x` and `y` name the axes. More is better in both. Where a floor looks at another figure than accept
 * length, `x` of `floors` is null; the outer `limited` names that figure, and each point has its own as `limited`.
 *
 * @typedef {import("./look.js").Look} Look
 * @typedef {import("./configurations.js").Configuration} Configuration
 * @typedef {{x: number, y: number}} Place
 * @typedef {{x: number|null, y: number}} Floors
 * @typedef {object} Data
 * @property {string} x
 * @property {string} y
 * @property {Place|null} [dense]
 * @property {string|null} [limited]
 * @property {Floors|null} [floors]
 * @property {(Configuration & {limited?: number|null})[]} points
 * @property {number} [shown]
 * @property {number} [total]
 */
import { roomFor, scaleOf, valueAxis } from "./axes.js";
import { entryOf, FRONT, kindOf, kindsOf, marksOf, standing } from "./configurations.js";
import { frame, legendOf } from "./legend.js";
import { faint } from "./look.js";
import { line, rect, text } from "./marks.js";
import { count, number, plural, skipText } from "./words.js";

/** Around the box of what is feasible, so much of its sides is shown too. */
const MARGIN = 0.25;

/**
 * @param {Data} data
 * @param {Look} look
 * @param {number} width
 * @param {boolean} [isNear] whether only what lies around the feasible box is shown
 * @returns {import("./figure.js").Picture}
 */
export function pareto(data, look, width, isNear = false) {
  const { dense, floors } = data;
  if (!data.points.length && !dense) return { empty: "No configuration has been evaluated yet." };
  const near = floors ? nearTo(floors, data.points) : data.points;
  const hasZoom = near.length > 0 && near.length < data.points.length;
  const points = isNear && hasZoom ? near : data.points;
  const kinds = kindsOf(look, points.length);
  /** @type {Record<string, {x: number, y: number, point: object}[]>} */
  const items = { below: [], feasible: [], front: [], selected: [], dense: [] };
  for (const point of points) items[kindOf(point)].push({ x: point.x, y: point.y, point: about(point, data) });
  if (dense) items.dense.push({ ...dense, point: aboutDense(dense, data) });

  const places = [...points, ...(dense ? [dense] : []), ...(floors ? [floors] : [])];
  const floorsLabel = floors?.x === null ? `Floor of ${data.y}` : "Floors: feasible above both";
  const x = scaleOf(places.map((place) => place.x), width < 500 ? 4 : 7);
  const y = scaleOf(places.map((place) => place.y));
  const shown = Object.entries(kinds).filter(([key]) => items[key].length);
  const entries = shown.map(([, kind]) => entryOf(kind, look));
  if (floors) entries.push({ label: floorsLabel, mark: (left, top) => boxMark(left, top, floors, look) });
  const legend = legendOf(entries, look, width);
  const top = legend.height + look.size * 2;
  return {
    option: {
      grid: { left: roomFor(y, look), right: 16, top, bottom: look.size * 3.2, outerBoundsMode: "none" },
      xAxis: valueAxis(x, look),
      yAxis: valueAxis(y, look),
      series: [
        ...(floors ? [feasibleBox(floors, x, y, look)] : []),
        stepLine(points.filter((point) => point.front), look),
        ...shown.map(([key, kind], index) => marksOf(kind, items[key], look, FRONT - index)),
        frame([...legend.elements, text(data.y, 0, legend.height + look.size * 0.6, look)]),
      ],
    },
    xName: data.x,
    note: noteOf(data, points.length),
    summary: summaryOf(points),
    zoom: hasZoom ? "Zoom in on what is feasible" : undefined,
    rows: () => rowsOf(data),
  };
}

/**
 * Dense and all points. Where they are a choice of more, a column and the file's name say so.
 * @param {Data} data
 * @returns {import("./figure.js").Rows}
 */
function rowsOf(data) {
  const { points, dense, limited, shown = points.length, total = shown } = data;
  const isPart = shown < total;
  const sample = isPart ? [`${shown} of ${total} configurations`] : [];
  const limits = (/** @type {number|null|undefined} */ value) => (limited ? [value ?? null] : []);
  return {
    columns: [
      ...["Skipped layers", "Level", data.x, data.y, ...(limited ? [limited] : []), "Feasible", "Front", "Selected"],
      ...(isPart ? ["Sample"] : []),
    ],
    rows: [
      ...(dense ? [["dense", 0, dense.x, dense.y, ...limits(null), null, false, false, ...sample]] : []),
      ...points.map((point) => [
        ...[point.skip.join(","), point.level ?? null, point.x, point.y, ...limits(point.limited)],
        ...[point.feasible, point.front, point.selected, ...sample],
      ]),
    ],
    part: isPart ? `${shown}-of-${total}` : undefined,
  };
}

/** @param {Floors} floors @param {Data["points"]} points */
function nearTo(floors, points) {
  const feasible = points.filter((point) => point.feasible);
  const least = (/** @type {"x"|"y"} */ axis) => {
    const figures = feasible.map((point) => point[axis]);
    const [bottom, top] = [floors[axis] ?? Math.min(...figures), Math.max(...figures)];
    return bottom - MARGIN * Math.max(top - bottom, 0);
  };
  const [x, y] = feasible.length ? [least("x"), least("y")] : [0, 0];
  return feasible.length ? points.filter((point) => point.x >= x && point.y >= y) : [];
}

/** What the plot leaves out. @param {Data} data @param {number} drawn */
function noteOf({ points, shown = points.length, total = shown }, drawn) {
  const outside = points.length - drawn;
  return [
    shown < total ? `${count(shown)} of ${count(total)} shown` : "",
    outside ? `${count(outside)} lie outside` : "",
  ]
    .filter(Boolean)
    .join("; ");
}

/** @param {Configuration[]} points */
function summaryOf(points) {
  const [feasible, front] = [points.filter((point) => point.feasible), points.filter((point) => point.front)];
  return `${plural(points.length, "configuration")}, ${feasible.length} feasible, ${front.length} on the front`;
}

/** @param {Data["points"][number]} point @param {Data} data @returns {import("./figure.js").Point} */
function about(point, data) {
  return {
    title: skipText(point.skip),
    facts: [
      [data.x, number(point.x)],
      [data.y, number(point.y)],
      ...(data.limited ? [/** @type {[string, string]} */ ([data.limited, number(point.limited)])] : []),
      ["Standing", standing(point)],
    ],
    url: point.url,
  };
}

/** @param {Place} dense @param {Data} data @returns {import("./figure.js").Point} */
function aboutDense(dense, data) {
  return { title: "Dense", facts: [[data.x, number(dense.x)], [data.y, number(dense.y)]] };
}

/**
 * What lies above the floors; where the first is on another figure, the second alone is drawn, for above it lies more.
 * @param {Floors} floors
 * @param {import("./axes.js").Scale} x
 * @param {import("./axes.js").Scale} y
 * @param {Look} look
 */
function feasibleBox(floors, x, y, look) {
  return {
    type: "custom",
    silent: true,
    z: 1,
    data: [[floors.x ?? x.min, floors.y]],
    renderItem(/** @type {object} */ _, /** @type {any} */ api) {
      const [left, bottom] = api.coord([floors.x ?? x.min, floors.y]);
      const [right, top] = api.coord([x.max, y.max]);
      const [start, base] = api.coord([x.min, y.min]);
      const style = { stroke: look.floor, lineWidth: 1, lineDash: [5, 4] };
      if (floors.x === null) return line([[start, bottom], [right, bottom]], style);
      const box = { x: left, y: top, width: right - left, height: bottom - top };
      return {
        type: "group",
        children: [
          rect(box, { fill: faint(look.positive, 0.09) }),
          line([[left, base], [left, top]], style),
          line([[start, bottom], [right, bottom]], style),
        ],
      };
    },
  };
}

/** @param {number} x @param {number} y @param {Floors} floors @param {Look} look */
function boxMark(x, y, floors, look) {
  const style = { stroke: look.floor, lineWidth: 1, lineDash: [3, 2] };
  if (floors.x === null) return [line([[x - 8, y], [x + 8, y]], style)];
  const box = { x: x - 6, y: y - 6, width: 12, height: 12 };
  return [rect(box, { fill: faint(look.positive, 0.14) }), line([[x - 6, y - 6], [x - 6, y + 6], [x + 6, y + 6]], style)];
}

/** The edge of what the front dominates. @param {Configuration[]} front @param {Look} look */
function stepLine(front, look) {
  const sorted = [...front].sort((first, second) => first.x - second.x);
  return {
    type: "custom",
    silent: true,
    z: 2,
    data: sorted.length > 1 ? [[sorted[0].x, sorted[0].y]] : [],
    renderItem(/** @type {object} */ _, /** @type {any} */ api) {
      const corners = sorted.flatMap((point, index) => {
        const next = sorted[index + 1];
        return next ? [[point.x, point.y], [point.x, next.y]] : [[point.x, point.y]];
      });
      return line(corners.map((corner) => api.coord(corner)), { stroke: look.front, lineWidth: 1.5 });
    },
  };
}
