/**
 * What skipping one layer alone changes, layer by layer: a row of cells a measure.
 *
 * Data: `{num_layers, rows: [{label, cells: [{layer, change, feasible, value, base, url}|null, ...]}]}`: `change` is relative
 * to dense, and null where dense is 0, for nothing is relative to that: such a cell has no colour, and shows a dash. A cell
 * that is null was not evaluated (yet). The colours have one scale for all rows, with zero in its middle; a cell whose
 * configuration is below a floor is hatched. Where the layers need more than one line, they are wrapped.
 *
 * @typedef {import("./look.js").Look} Look
 * @typedef {{layer: number, change: number|null, feasible: boolean, value: number|null, base: number|null, url?: string|null}} Cell
 * @typedef {{num_layers: number, rows: {label: string, cells: (Cell|null)[]}[]}} Data
 * @typedef {{x: number, y: number, width: number, height: number}} Box
 */
import { frame, legendOf } from "./legend.js";
import { inkOn, mix } from "./look.js";
import { crossedOut, pointed, rect, text } from "./marks.js";
import { NONE, number, plural, signedPercent } from "./words.js";

const NARROWEST = 17;
const WIDEST = 40;
const HEIGHT = 28;
const GAP = 2;
/** So many of the changes lie within the scale; larger ones have the colour of its end, so that small ones differ too. */
const WITHIN = 0.8;
/** Where a scale may end. */
const BOUNDS = [0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 1];
const GRADIENT_STEPS = 9;

/** @param {Data} data @param {Look} look @param {number} width @returns {import("./figure.js").Picture} */
export function heatmap(data, look, width) {
  const cells = data.rows.flatMap((row) => row.cells).filter((cell) => cell !== null);
  if (!cells.length) return { empty: "No single layer has been evaluated yet." };
  const bound = boundOf(cells);
  const layout = layoutOf(data, look, width);
  const hasWords = layout.size >= look.widthOf("\u221200") + 4;
  const legend = legendOf(legendEntries(bound, cells, data, look), look, width);
  const { boxes, labels, height } = place(data, look, layout, legend.height + 6);
  const items = boxes.filter(({ cell }) => cell !== null);
  const blanks = boxes.filter(({ cell }) => cell === null).map(({ box }) => blank(box, look));
  return {
    option: {
      series: [
        frame([...legend.elements, ...labels, ...blanks]),
        {
          type: "custom",
          coordinateSystem: "none",
          data: items.map(({ cell, label }) => ({ value: [cell?.layer, cell?.change ?? 0], point: about(cell, label) })),
          renderItem: (/** @type {{dataIndex: number}} */ { dataIndex }) =>
            cellOf(items[dataIndex], bound, look, hasWords),
        },
      ],
    },
    height: Math.ceil(height),
    summary: `${plural(cells.length, "value")} of ${plural(data.num_layers, "layer")} in ${plural(data.rows.length, "row")}`,
  };
}

/** @param {Cell[]} cells */
function boundOf(cells) {
  const known = cells.flatMap(({ change }) => (change === null ? [] : [Math.abs(change)]));
  const changes = known.sort((first, second) => first - second);
  const wanted = changes[Math.floor((changes.length - 1) * WITHIN)] ?? 0;
  return BOUNDS.find((bound) => bound >= wanted) ?? 1;
}

/** @param {Data} data @param {Look} look @param {number} width */
function layoutOf({ num_layers: layers, rows }, look, width) {
  const longest = Math.max(...rows.map(({ label }) => look.widthOf(label)));
  const left = longest <= width * 0.2 ? longest + 10 : 0;
  const fitting = Math.floor((width - left) / NARROWEST);
  // Lines begin at round numbers.
  const step = fitting >= 10 ? 10 : 5;
  const most = Math.max(step, Math.floor(fitting / step) * step);
  const lines = Math.ceil(layers / most);
  const perLine = layers <= fitting ? layers : Math.ceil(layers / lines / step) * step;
  return { left, perLine, size: Math.min(WIDEST, Math.floor((width - left) / perLine)) };
}

/**
 * Boxes of all cells, and the texts beside them.
 * @param {Data} data
 * @param {Look} look
 * @param {{left: number, perLine: number, size: number}} layout
 * @param {number} top
 */
function place({ num_layers: layers, rows }, look, { left, perLine, size }, top) {
  /** @type {{box: Box, cell: Cell|null, label: string}[]} */
  const boxes = [];
  const labels = [];
  const line = Math.round(look.size * 1.5);
  const isEach = size >= look.widthOf(String(layers - 1)) + 5;
  let y = top;
  for (let start = 0; start < layers; start += perLine) {
    const end = Math.min(layers, start + perLine);
    for (const { label, cells } of rows) {
      if (!left) {
        labels.push(text(label, 0, y + line / 2, look));
        y += line;
      } else {
        labels.push(text(label, left - 10, y + HEIGHT / 2, look, { align: "right" }));
      }
      for (let layer = start; layer < end; layer += 1) {
        const box = { x: left + (layer - start) * size, y, width: size - GAP, height: HEIGHT - GAP };
        boxes.push({ box, cell: cells[layer] ?? null, label });
      }
      y += HEIGHT;
    }
    for (let layer = start; layer < end; layer += isEach ? 1 : 5) {
      const x = left + (layer - start) * size + (size - GAP) / 2;
      labels.push(text(String(layer), x, y + line / 2, look, { align: "center", size: look.size - 1 }));
    }
    y += line + 8;
  }
  return { boxes, labels, height: y };
}

/** @param {number} bound @param {Cell[]} cells @param {Data} data @param {Look} look */
function legendEntries(bound, cells, { num_layers: layers, rows }, look) {
  const step = 10;
  const width = GRADIENT_STEPS * step;
  /** @type {import("./legend.js").Entry[]} */
  const entries = [
    {
      label: `${signedPercent(-bound, 0)} to ${signedPercent(bound, 0)} and beyond`,
      width,
      mark: (x, y) =>
        Array.from({ length: GRADIENT_STEPS }, (_, index) => {
          const change = ((2 * index) / (GRADIENT_STEPS - 1) - 1) * bound;
          const box = { x: x - width / 2 + index * step, y: y - 6, width: step, height: 12 };
          return rect(box, { fill: colourOf(change, bound, look) });
        }),
    },
  ];
  if (cells.some((cell) => cell.change === null)) {
    const box = (/** @type {number} */ x, /** @type {number} */ y) => ({ x: x - 8, y: y - 6, width: 16, height: 12 });
    entries.push({ label: "Dense is 0", mark: (x, y) => [plain(box(x, y), look), dash(box(x, y), look)] });
  }
  if (cells.some((cell) => !cell.feasible)) {
    entries.push({ label: "Below a floor", mark: (x, y) => [hatched({ x: x - 8, y: y - 6, width: 16, height: 12 }, look)] });
  }
  if (cells.length < layers * rows.length) {
    entries.push({ label: "Not evaluated", mark: (x, y) => [blank({ x: x - 8, y: y - 6, width: 16, height: 12 }, look)] });
  }
  return entries;
}

/** @param {number} change @param {number} bound @param {Look} look */
function colourOf(change, bound, look) {
  const share = Math.min(1, Math.abs(change) / bound);
  return mix(look.zero, change < 0 ? look.negative : look.positive, share);
}

/** @param {{box: Box, cell: Cell|null}} item @param {number} bound @param {Look} look @param {boolean} hasWords */
function cellOf({ box, cell }, bound, look, hasWords) {
  const change = cell?.change ?? null;
  const fill = change === null ? look.surface : colourOf(change, bound, look);
  const ink = inkOn(fill, [look.text, look.surface]);
  const style = { fill, stroke: look.grid, lineWidth: 1, decal: cell?.feasible ? null : crossedOut(look, ink) };
  const children = [pointed(rect(box, style), look)];
  // Over hatching a figure cannot be read; it is in the tooltip and in the table.
  if (change === null) {
    if (cell?.feasible) children.push(dash(box, look));
  } else if (cell?.feasible && hasWords) {
    const words = signedPercent(change, 0).replace("\u00a0%", "");
    const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
    children.push(text(words, x, y, look, { align: "center", fill: ink, size: look.size - 1 }));
  }
  return { type: "group", children };
}

/** @param {Box} box @param {Look} look */
function hatched(box, look) {
  return rect(box, { fill: look.zero, stroke: look.grid, lineWidth: 1, decal: crossedOut(look) });
}

/** @param {Box} box @param {Look} look */
function plain(box, look) {
  return rect(box, { fill: look.surface, stroke: look.grid, lineWidth: 1 });
}

/** What stands where there is no change to tell. @param {Box} box @param {Look} look */
function dash(box, look) {
  return text(NONE, box.x + box.width / 2, box.y + box.height / 2, look, { align: "center" });
}

/** @param {Box} box @param {Look} look */
function blank(box, look) {
  return rect(box, { fill: "none", stroke: look.neutral, lineWidth: 1, lineDash: [2, 2] });
}

/** @param {Cell|null} cell @param {string} label @returns {import("./figure.js").Point} */
function about(cell, label) {
  return {
    title: `Layer ${cell?.layer}: ${label}`,
    facts: [
      ["Change", cell?.change == null ? "not relative: dense is 0" : signedPercent(cell.change)],
      ["Without it", number(cell?.value)],
      ["Dense", number(cell?.base)],
      ["Standing", cell?.feasible ? "feasible" : "below a floor"],
    ],
    url: cell?.url,
  };
}
