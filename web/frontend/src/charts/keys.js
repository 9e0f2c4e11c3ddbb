/**
 * Going through the marks of a chart by keys; each is shown as if it were pointed at, and read out.
 *
 * @typedef {import("./figure.js").Drawing} Drawing
 */
import { open } from "./links.js";
import { sentenceOf } from "./tooltip.js";

const PAGE = 10;

/** @param {HTMLElement} plot @param {Drawing} drawing */
export function walk(plot, drawing) {
  let at = -1;
  const leave = () => {
    drawing.chart?.dispatchAction({ type: "downplay" });
    drawing.chart?.dispatchAction({ type: "hideTip" });
  };
  plot.addEventListener("keydown", (event) => {
    const { places } = drawing;
    if (event.target !== plot || event.altKey || event.ctrlKey || event.metaKey || !places.length) return;
    if (event.key === "Enter" && at >= 0) open(places[Math.min(at, places.length - 1)].point);
    if (event.key === "Escape") leave();
    const next = stepOf(event.key, at, places.length);
    if (next === undefined) return;
    event.preventDefault();
    leave();
    at = Math.max(0, Math.min(places.length - 1, next));
    const { seriesIndex, dataIndex, point } = places[at];
    drawing.chart?.dispatchAction({ type: "highlight", seriesIndex, dataIndex });
    drawing.chart?.dispatchAction({ type: "showTip", seriesIndex, dataIndex });
    drawing.said.textContent = sentenceOf(point);
  });
  plot.addEventListener("blur", leave);
}

/** @param {string} key @param {number} at @param {number} count @returns {number|undefined} */
function stepOf(key, at, count) {
  switch (key) {
    case "ArrowRight":
    case "ArrowDown":
      return at + 1;
    case "ArrowLeft":
    case "ArrowUp":
      return at - 1;
    case "PageDown":
      return at + PAGE;
    case "PageUp":
      return at - PAGE;
    case "Home":
      return 0;
    case "End":
      return count - 1;
    default:
      return undefined;
  }
}
