/**
 * Taking away what is shown: a table as CSV or JSON, a chart as PNG or SVG, what a chart shows as CSV or JSON.
 *
 * `<button data-export="csv|json" data-export-table="ID">` and `<button data-export="png|svg|csv|json"
 * data-export-chart="ID">` download a file called `data-export-name`; with `data-export-how="copy"` the table goes into the
 * clipboard instead.
 */
import { copy } from "./copy.js";
import { csvOf, dataOf, jsonOf } from "./tables.js";
import { toast } from "./toasts.js";

const TYPES = { csv: "text/csv;charset=utf-8", json: "application/json", svg: "image/svg+xml", png: "image/png" };

/** Exports at a press of such a button. */
export function start() {
  document.addEventListener("click", (event) => {
    const button = event.target instanceof Element && event.target.closest("[data-export]");
    if (!(button instanceof HTMLElement)) return;
    const done = !button.dataset.exportChart ? takeTable(button) : isPicture(button) ? takeChart(button) : takePoints(button);
    done.catch(() => toast("bad", "The export failed. Load the page again and try once more."));
  });
}

/** @param {HTMLElement} button */
const isPicture = (button) => button.dataset.export === "png" || button.dataset.export === "svg";

/** @param {HTMLElement} button */
async function takeTable(button) {
  const table = document.getElementById(button.dataset.exportTable ?? "");
  if (!(table instanceof HTMLTableElement)) {
    toast("warning", "There is no table to export yet.");
    return;
  }
  const { kind, text } = textOf(button, dataOf(table));
  if (button.dataset.exportHow === "copy") await copy(text, button);
  else save(new Blob([text], { type: TYPES[kind] }), `${nameOf(button)}.${kind}`);
}

/** @param {HTMLElement} button */
async function takePoints(button) {
  const { rowsOf } = await import("./charts.js");
  const found = rowsOf(button.dataset.exportChart ?? "");
  if (!found) {
    toast("warning", "There is no chart to export yet.");
    return;
  }
  const { kind, text } = textOf(button, found);
  save(new Blob([text], { type: TYPES[kind] }), `${nameOf(button, found.part)}.${kind}`);
}

/** @param {HTMLElement} button @param {import("./tables.js").Data} data */
function textOf(button, data) {
  const kind = button.dataset.export === "json" ? "json" : "csv";
  return { kind, text: kind === "json" ? jsonOf(data) : csvOf(data) };
}

/** @param {HTMLElement} button */
async function takeChart(button) {
  const kind = button.dataset.export === "svg" ? "svg" : "png";
  const { imageOf } = await import("./charts.js");
  const image = await imageOf(button.dataset.exportChart ?? "", kind);
  if (image) save(image, `${nameOf(button)}.${kind}`);
  else toast("warning", "There is no chart to export yet.");
}

/** @param {HTMLElement} button @param {string} [part] what part of all there is the file holds */
function nameOf(button, part) {
  const name = [button.dataset.exportName || "skipmap", part].filter(Boolean).join("-");
  return name.replace(/[^\p{L}\p{N}_.-]+/gu, "-");
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
