/**
 * Values of several series in several categories, side by side: as bars or as dots, with whiskers where there are intervals.
 *
 * @typedef {import("./look.js").Look} Look
 * @typedef {object} Value `gate`: what held-out prompts say of it; `fails`: they do not let it pass, so its dot is hollow
 * @property {string} category
 * @property {number|null} value
 * @property {number|null} [low]
 * @property {number|null} [high]
 * @property {string|null} [gate]
 * @property {boolean} [fails]
 * @property {string|null} [url]
 * @typedef {object} Data
 * @property {string} unit
 * @property {number|null} [reference]
 * @property {string[]} categories
 * @property {{name: string, values: Value[]}[]} series
 * @typedef {{isVertical: boolean, across: number, band: number, room: number, lines: number}} Layout `isVertical`: the
 *   categories stand below each other; `across`: px of one series in a category; `band`: px of a category; `room`: px for
 *   its name, which takes so many `lines`
 */
import { nameAxis, roomFor, scaleOf, valueAxis } from "./axes.js";
import { frame, legendOf } from "./legend.js";
import { hatching, line, pointed, rect, shape, SHAPES, text, whisker } from "./marks.js";
import { number, plural, withUnit } from "./words.js";

/** Px of a series in a category. */
const ROOMY = 20;
const NARROWEST_BAR = 14;
const WIDEST_BAR = 34;
const BETWEEN_GROUPS = 14;
/** Letters of the longest unit that is a sign, such as "\u00d7". */
const SIGN = 2;

/**
 * @param {Data} data
 * @param {Look} look
 * @param {number} width
 * @param {"bars"|"dots"} form
 * @returns {import("./figure.js").Picture}
 */
export function grouped(data, look, width, form) {
  const { categories, series, unit, reference } = data;
  const values = series.flatMap((each) => each.values).filter((each) => each.value !== null);
  if (!values.length) return { empty: "There are no figures yet." };
  const layout = layoutOf(data, look, width, form);
  const known = values.flatMap((each) => [each.value, each.low, each.high]);
  const scale = scaleOf([...known, reference, form === "bars" ? 0 : null], width < 500 ? 4 : 6);
  const entries = series.map(({ name }, index) => entryOf(name, index, look, form));
  const style = { stroke: look.text, lineWidth: 1, lineDash: [5, 4] };
  if (typeof reference === "number") {
    const label = `Reference: ${withUnit(reference, unit, 2)}`;
    entries.push({ label, mark: (x, y) => [line([[x - 8, y], [x + 8, y]], style)] });
  }
  if (form === "dots" && values.some((each) => each.fails)) {
    const style = dotStyle(look.text, look, true);
    entries.push({ label: "Hollow: fails the held-out check", mark: (x, y) => [shape(SHAPES[0], x, y, 5.5, style, look)] });
  }
  const legend = legendOf(entries, look, width);
  // A sign stands behind each figure, words stand once at the axis.
  const sign = unit.length <= SIGN ? unit : "";
  const words = sign ? "" : unit;
  const names = nameAxis(categories, look, layout);
  const figures = valueAxis(scale, look, sign);
  const lines = { show: true, lineStyle: { color: look.grid } };
  const { isVertical } = layout;
  const above = !isVertical && words ? look.size * 2 : look.size * 0.6;
  const below = look.size * (isVertical ? (words ? 3.2 : 1.8) : layout.lines * 1.3 + 0.6);
  return {
    option: {
      grid: {
        left: isVertical ? layout.room + 10 : roomFor(scale, look, sign),
        right: 18,
        top: legend.height + above,
        bottom: below,
        outerBoundsMode: "none",
      },
      xAxis: isVertical ? figures : names,
      yAxis: isVertical ? { ...names, splitLine: lines } : figures,
      series: [
        ...series.map((_, index) => seriesOf(data, index, look, layout, scale, form)),
        ...(typeof reference === "number" ? [referenceLine(reference, categories.length, layout, style)] : []),
        frame([...legend.elements, ...(isVertical ? [] : [text(words, 0, legend.height + look.size * 0.6, look)])]),
      ],
    },
    height: isVertical ? Math.ceil(legend.height + above + categories.length * layout.band + below) : undefined,
    xName: isVertical ? words : "",
    summary: `${plural(values.length, "value")}: ${series.map(({ name }) => name).join(", ")}`,
  };
}

/** @param {Data} data @param {Look} look @param {number} width @param {"bars"|"dots"} form @returns {Layout} */
function layoutOf({ categories, series }, look, width, form) {
  const plot = width - look.size * 4;
  const share = plot / categories.length;
  const narrow = (share - BETWEEN_GROUPS) / series.length;
  const longest = Math.max(...categories.map((name) => look.widthOf(name)));
  if (form === "bars" && narrow >= NARROWEST_BAR && longest <= share * 1.8) {
    const lines = longest > share - 4 ? 2 : 1;
    return { isVertical: false, across: Math.min(narrow, WIDEST_BAR), band: share, room: share - 4, lines };
  }
  const band = series.length * ROOMY + BETWEEN_GROUPS;
  return { isVertical: true, across: ROOMY, band, room: Math.min(longest + 2, width * 0.32), lines: 1 };
}

/** @param {string} name @param {number} index @param {Look} look @param {"bars"|"dots"} form */
function entryOf(name, index, look, form) {
  const fill = colourOf(index, look);
  return {
    label: name,
    mark: (/** @type {number} */ x, /** @type {number} */ y) =>
      form === "bars"
        ? [rect({ x: x - 7, y: y - 6, width: 14, height: 12 }, { fill, decal: hatching(index, look) })]
        : [shape(SHAPES[index % SHAPES.length], x, y, 5.5, { fill }, look)],
  };
}

/** @param {number} index @param {Look} look */
function colourOf(index, look) {
  return look.series[index % look.series.length];
}

/**
 * @param {Data} data
 * @param {number} index of the series
 * @param {Look} look
 * @param {Layout} layout
 * @param {import("./axes.js").Scale} scale
 * @param {"bars"|"dots"} form
 */
function seriesOf({ categories, series, unit }, index, look, layout, scale, form) {
  const { name, values } = series[index];
  const items = values.filter((each) => each.value !== null && categories.includes(each.category));
  const fill = colourOf(index, look);
  const offset = (index - (series.length - 1) / 2) * layout.across;
  return {
    type: "custom",
    name,
    z: 3,
    data: items.map((item) => {
      const place = categories.indexOf(item.category);
      return { value: layout.isVertical ? [item.value, place] : [place, item.value], point: about(item, name, unit) };
    }),
    renderItem(/** @type {{dataIndex: number}} */ { dataIndex }, /** @type {any} */ api) {
      const item = items[dataIndex];
      const place = categories.indexOf(item.category);
      /** @param {number} value @returns {[number, number]} */
      const at = (value) => {
        const [x, y] = api.coord(layout.isVertical ? [value, place] : [place, value]);
        return layout.isVertical ? [x, y + offset] : [x + offset, y];
      };
      const end = at(/** @type {number} */ (item.value));
      const hasInterval = typeof item.low === "number" && typeof item.high === "number";
      const ends = hasInterval ? [at(Number(item.low)), at(Number(item.high))] : [];
      if (form === "bars") {
        const stroke = { stroke: look.text, lineWidth: 1.5 };
        const bar = barOf(at(Math.max(0, scale.min)), end, layout);
        const style = { fill, decal: hatching(index, look) };
        const lines = hasInterval ? whisker(ends[0], ends[1], stroke, 3) : [];
        return { type: "group", children: [pointed(rect(bar, style), look), ...lines] };
      }
      const style = dotStyle(fill, look, item.fails);
      const lines = hasInterval ? whisker(ends[0], ends[1], { stroke: fill, lineWidth: 2 }) : [];
      return { type: "group", children: [...lines, shape(SHAPES[index % SHAPES.length], ...end, 5.5, style, look)] };
    },
  };
}

/** @param {string} fill @param {Look} look @param {boolean} [isHollow] */
function dotStyle(fill, look, isHollow) {
  return isHollow ? { fill: look.surface, stroke: fill, lineWidth: 2 } : { fill, stroke: look.surface, lineWidth: 1 };
}

/** @param {[number, number]} base @param {[number, number]} end @param {Layout} layout */
function barOf(base, end, { isVertical, across }) {
  const thick = Math.max(3, across - 3);
  const box = isVertical
    ? { x: base[0], y: base[1] - thick / 2, width: end[0] - base[0], height: thick }
    : { x: base[0] - thick / 2, y: end[1], width: thick, height: base[1] - end[1] };
  return box;
}

/** @param {Value} item @param {string} name @param {string} unit @returns {import("./figure.js").Point} */
function about(item, name, unit) {
  /** @type {[string, string][]} */
  const facts = [["Value", withUnit(item.value, unit)]];
  if (typeof item.low === "number" && typeof item.high === "number") {
    facts.push(["Interval", `${number(item.low)} to ${withUnit(item.high, unit)}`]);
  }
  if (item.gate) facts.push(["Gate", item.gate]);
  return { title: `${item.category}, ${name}`, facts, url: item.url };
}

/** @param {number} reference @param {number} categories @param {Layout} layout @param {Record<string, any>} style */
function referenceLine(reference, categories, { isVertical, band }, style) {
  return {
    type: "custom",
    silent: true,
    z: 4,
    data: [isVertical ? [reference, 0] : [0, reference]],
    renderItem(/** @type {object} */ _, /** @type {any} */ api) {
      const half = api.size([1, 1])[isVertical ? 1 : 0] / 2 || band / 2;
      const [from, to] = [0, categories - 1].map((place) => api.coord(isVertical ? [reference, place] : [place, reference]));
      const [across, down] = isVertical ? [0, half] : [half, 0];
      return line([[from[0] - across, from[1] - down], [to[0] + across, to[1] + down]], style);
    },
  };
}
