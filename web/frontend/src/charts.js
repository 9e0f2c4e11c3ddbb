/**
 * The charts of a page.
 *
 * `<figure id data-chart="KIND">` holds the caption (`.chart-label`), the place for the plot (`[data-chart-plot]`) and the data:
 * as `<script type="application/json" data-chart-data>`, or at the address `data-chart-src`, which is asked again for as long
 * as the server cannot be reached. Kinds and their data: charts/.
 *
 * @typedef {object} State of a figure
 * @property {Drawing} drawing
 * @property {string} [text] data that are drawn
 * @property {string} [tag] of them
 * @property {AbortController} [request] that is on its way
 * @property {ReturnType<typeof setTimeout>} [timer] of the next try
 * @property {number} failures in a row
 */
import { bars } from "./charts/bars.js";
import { cost } from "./charts/cost.js";
import { Drawing } from "./charts/figure.js";
import { heatmap } from "./charts/heatmap.js";
import { intervals } from "./charts/intervals.js";
import { pareto } from "./charts/pareto.js";
import { rollout } from "./charts/rollout.js";
import { ask, pauseAfter, RequestFailed } from "./requests.js";
import { sessionIsOver } from "./session.js";

/** @type {Record<string, import("./charts/figure.js").Kind>} */
const KINDS = { "layer-heatmap": heatmap, pareto, cost, intervals, bars, rollout };

/** @type {Map<HTMLElement, State>} by figure */
const known = new Map();

const drawAgain = () => known.forEach(({ drawing }) => drawing.draw());
document.addEventListener("skipmap:theme", drawAgain);
document.addEventListener("skipmap:session-back", () => drawAll(document));
// On paper the theme is another.
matchMedia("print").addEventListener("change", drawAgain);

/**
 * Draws the charts that are new, and those again whose data have changed.
 * @param {ParentNode} place where to look for them
 */
export function drawAll(place) {
  for (const [figure, state] of known) {
    if (figure.isConnected) continue;
    stopAsking(state);
    state.drawing.end();
    known.delete(figure);
  }
  for (const figure of place.querySelectorAll("[data-chart]")) {
    if (figure instanceof HTMLElement) void bringUpToDate(figure);
  }
}

/**
 * A chart as a file.
 * @param {string} id of its figure
 * @param {"png"|"svg"} kind
 * @returns {Promise<Blob|null>} null when nothing is drawn
 */
export async function imageOf(id, kind) {
  const figure = document.getElementById(id);
  return (figure && known.get(figure)?.drawing.image(kind)) ?? null;
}

/**
 * What a chart shows as rows, for the kinds that can tell.
 * @param {string} id of its figure
 * @returns {import("./charts/figure.js").Rows|null} null when nothing is drawn
 */
export function rowsOf(id) {
  const figure = document.getElementById(id);
  return (figure && known.get(figure)?.drawing.rows()) ?? null;
}

/** @param {HTMLElement} figure */
async function bringUpToDate(figure) {
  const plot = figure.querySelector("[data-chart-plot]");
  const kind = KINDS[figure.dataset.chart ?? ""];
  if (!(plot instanceof HTMLElement) || !kind) return;
  let state = known.get(figure);
  if (!state) known.set(figure, (state = { drawing: new Drawing(figure, plot, kind), failures: 0 }));
  stopAsking(state);
  const source = figure.dataset.chartSrc;
  const inline = figure.querySelector("[data-chart-data]")?.textContent ?? undefined;
  const text = source ? await fetched(source, state, figure) : inline;
  if (text === undefined) return;
  if (text === state.text) {
    // What is in the caption may have been replaced.
    state.drawing.caption();
    return;
  }
  state.text = text;
  state.drawing.show(JSON.parse(text));
}

/** @param {State} state */
function stopAsking(state) {
  state.request?.abort();
  clearTimeout(state.timer);
}

/** @param {string} source @param {State} state @param {HTMLElement} figure */
async function fetched(source, state, figure) {
  const { signal } = (state.request = new AbortController());
  try {
    const answer = await ask(source, { tag: state.tag, signal });
    const text = answer.status === 304 ? state.text : await answer.text();
    if (signal.aborted) return undefined;
    state.tag = answer.headers.get("ETag") ?? undefined;
    state.failures = 0;
    return text;
  } catch (error) {
    // A later request is on its way, or the figure has left the page.
    if (signal.aborted) return undefined;
    // What breaks off within an answer is no failure of ask().
    bear(error instanceof RequestFailed ? error : new RequestFailed(String(error)), state, figure);
    return undefined;
  }
}

/** @param {RequestFailed} failure @param {State} state @param {HTMLElement} figure */
function bear(failure, state, figure) {
  if (failure.status === 401) sessionIsOver();
  else if (state.text === undefined) state.drawing.clear(failure.message);
  if (!failure.isPassing) return;
  state.failures += 1;
  const { retrySeconds } = failure;
  state.timer = setTimeout(() => void bringUpToDate(figure), pauseAfter(state.failures, { retrySeconds }));
}
