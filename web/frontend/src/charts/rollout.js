/**
 * How far a channel's version has come: its nodes by the version that they run, and by the state of their map.
 *
 * Data: `{channel_version, versions: [{version, nodes, label}], states: {FRESH, STALE, EXPIRED, NONE}}`.
 *
 * @typedef {import("./look.js").Look} Look
 * @typedef {{label: string, nodes: number, fill: string, hatch: number}} Part
 * @typedef {object} Data
 * @property {number|null} channel_version
 * @property {{version: number|null, nodes: number, label: string}[]} versions
 * @property {Record<string, number>} states
 */
import { frame, legendOf } from "./legend.js";
import { inkOn } from "./look.js";
import { hatching, pointed, rect, text } from "./marks.js";
import { count, percent, plural } from "./words.js";

const STATES = ["FRESH", "STALE", "EXPIRED", "NONE"];
const BAR = 34;

/** @param {Data} data @param {Look} look @param {number} width @returns {import("./figure.js").Picture} */
export function rollout(data, look, width) {
  const rows = [
    { label: "Nodes by version", parts: versionParts(data, look) },
    { label: "Nodes by state of their map", parts: stateParts(data, look) },
  ];
  if (!rows.some(({ parts }) => parts.length)) return { empty: "No node has reported yet." };
  const still = [];
  /** @type {{part: Part, total: number, label: string, box: {x: number, y: number, width: number, height: number}}[]} */
  const items = [];
  const line = Math.round(look.size * 1.6);
  let y = 0;
  for (const { label, parts } of rows.filter((row) => row.parts.length)) {
    const total = parts.reduce((sum, part) => sum + part.nodes, 0);
    still.push(text(`${label} (${count(total)})`, 0, y + line / 2, look, { fill: look.text }));
    y += line + 2;
    let x = 0;
    for (const part of parts) {
      const length = (part.nodes / total) * width;
      items.push({ part, total, label, box: { x, y, width: length, height: BAR } });
      x += length;
    }
    y += BAR + 6;
    const legend = legendOf(parts.map((part) => entryOf(part, look)), look, width, y);
    still.push(...legend.elements);
    y += legend.height + 14;
  }
  return {
    option: {
      series: [
        frame(still),
        {
          type: "custom",
          coordinateSystem: "none",
          data: items.map(({ part, total, label }) => ({ value: part.nodes, point: about(part, total, label) })),
          renderItem: (/** @type {{dataIndex: number}} */ { dataIndex }) =>
            partOf(items[dataIndex].box, items[dataIndex].part, look),
        },
      ],
    },
    height: Math.ceil(y),
    summary: rows.flatMap(({ parts }) => parts.map((part) => `${part.label}: ${plural(part.nodes, "node")}`)).join("; "),
  };
}

/** @param {Data} data @param {Look} look @returns {Part[]} */
function versionParts({ channel_version: current, versions }, look) {
  let others = 0;
  return versions
    .filter(({ nodes }) => nodes > 0)
    .map(({ version, nodes, label }) => {
      const index = version === current ? 0 : 1 + (others++ % (look.series.length - 1));
      return { label, nodes, fill: look.series[index], hatch: index };
    });
}

/** @param {Data} data @param {Look} look @returns {Part[]} */
function stateParts({ states }, look) {
  const fills = [look.positive, look.series[1], look.negative, look.neutral];
  return STATES.map((label, hatch) => ({ label, nodes: states[label] ?? 0, fill: fills[hatch], hatch })).filter(
    ({ nodes }) => nodes > 0,
  );
}

/** @param {Part} part @param {Look} look @returns {import("./legend.js").Entry} */
function entryOf({ label, nodes, fill, hatch }, look) {
  return {
    label: `${label}: ${count(nodes)}`,
    mark: (x, y) => [rect({ x: x - 7, y: y - 6, width: 14, height: 12 }, { fill, decal: hatching(hatch, look) })],
  };
}

/** @param {{x: number, y: number, width: number, height: number}} box @param {Part} part @param {Look} look */
function partOf(box, { label, fill, hatch }, look) {
  // The narrowest part is still seen.
  const shown = { ...box, width: Math.max(2, box.width - 1) };
  const style = { fill, decal: hatching(hatch, look) };
  const children = [pointed(rect(shown, style), look)];
  if (hatch === 0 && look.widthOf(label) + 16 <= shown.width) {
    const ink = inkOn(fill, [look.text, look.surface]);
    children.push(text(label, box.x + 8, box.y + BAR / 2, look, { fill: ink }));
  }
  return { type: "group", children };
}

/** @param {Part} part @param {number} total @param {string} label @returns {import("./figure.js").Point} */
function about(part, total, label) {
  return {
    title: part.label,
    facts: [
      ["Nodes", count(part.nodes)],
      ["Share", percent(part.nodes / total)],
      ["In", label],
    ],
  };
}
