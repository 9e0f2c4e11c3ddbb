/** A legend above the plot that wraps where the line is full, and the names of the axes. */
import { text } from "./marks.js";

/** @typedef {import("./look.js").Look} Look */
/** @typedef {import("./marks.js").Element} Element */
/** @typedef {{label: string, mark: (x: number, y: number) => Element[], width?: number}} Entry */

const MARK = 16;
const GAP = 18;
const LINE = 1.65;

/**
 * @param {Entry[]} entries `mark` draws around a point
 * @param {Look} look
 * @param {number} width
 * @param {number} [top]
 * @returns {{elements: Element[], height: number}}
 */
export function legendOf(entries, look, width, top = 0) {
  const line = Math.round(look.size * LINE);
  /** @type {Element[]} */
  const elements = [];
  let [x, y] = [0, top + line / 2];
  for (const { label: whole, mark, width: markWidth = MARK } of entries) {
    const label = shortened(whole, width - markWidth - 5, look);
    const length = markWidth + 5 + look.widthOf(label);
    if (x > 0 && x + length > width) [x, y] = [0, y + line];
    elements.push(...mark(x + markWidth / 2, y), text(label, x + markWidth + 5, y, look));
    x += length + GAP;
  }
  return { elements, height: entries.length ? y + line / 2 + 4 - top : 0 };
}

/** @param {string} words @param {number} room px @param {Look} look */
function shortened(words, room, look) {
  let end = words.length;
  const cut = () => (end < words.length ? `${words.slice(0, end)}\u2026` : words);
  while (end > 1 && look.widthOf(cut()) > room) end -= 1;
  return cut();
}

/**
 * Things that stand in the picture and mean no datum.
 * @param {Element[]} children
 */
export function frame(children) {
  return {
    type: "custom",
    coordinateSystem: "none",
    silent: true,
    data: [0],
    tooltip: { show: false },
    renderItem: () => ({ type: "group", children }),
  };
}
