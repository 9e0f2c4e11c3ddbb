/**
 * Taking away what is shown: a table as CSV or JSON, a chart as PNG or SVG.
 *
 * `<button data-export="csv|json" data-export-table="ID">` and `<button data-export="png|svg" data-export-chart="ID">`
 * download a file called `data-export-name`; with `data-export-how="copy"` the table goes into the clipboard instead.
 */
import { copy } from "./copy.js";
import { csvOf, jsonOf } from "./tables.js";
import { toast } from "./toasts.js";

const TYPES = { csv: "text/csv;charset=utf-8", json: "application/json", svg: "image/svg+xml", png: "image/png" };

/** Exports at a press of such a button. */
export function start() {
  document.addEventListener("click", (event) => {
    const button = event.target instanceof Element && event.target.closest("[data-export]");
    if (!(button instanceof HTMLElement)) return;
    const done = button.dataset.exportChart ? takeChart(button) : takeTable(button);
    done.catch(() => toast("bad", "The export failed. Load the page again and try once more."));
  });
}

/** @param {HTMLElement} button */
async function takeTable(button) {
  const table = document.getElementById(button.dataset.exportTable ?? "");
  if (!(table instanceof HTMLTableElement)) {
    toast("warning", "There is no table to export yet.");
    return;
  }
  const kind = button.dataset.export === "json" ? "json" : "csv";
  const text = kind === "json" ? jsonOf(table) : csvOf(table);
  if (button.dataset.exportHow === "copy") await copy(text, button);
  else save(new Blob([text], { type: TYPES[kind] }), `${nameOf(button)}.${kind}`);
}

/** @param {HTMLElement} button */
async function takeChart(button) {
  const kind = button.dataset.export === "svg" ? "svg" : "png";
  const { imageOf } = await import("./charts.js");
  const image = await imageOf(button.dataset.exportChart ?? "", kind);
  if (image) save(image, `${nameOf(button)}.${kind}`);
  else toast("warning", "There is no chart to export yet.");
}

/** @param {HTMLElement} button */
function nameOf(button) {
  return (button.dataset.exportName || "skipmap").replace(/[^\w.-]+/g, "-");
}

/** @param {Blob} content @param {string} name */
function save(content, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  // Some browsers read it only after the press is over.
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
