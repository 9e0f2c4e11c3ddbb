/**
 * Small tables that sort by themselves: `<table data-sortable>` gets a button in the header of each column, unless the header
 * has `data-no-sort`. A press sorts by that column, a second one the other way round; `aria-sort` tells. Figures sort by
 * `data-value`. Rows that are equal keep their order, and cells with nothing in them stay last.
 */
const ORDERS = { ascending: 1, descending: -1 };

/** Makes headers into buttons, now and in what comes later. */
export function start() {
  prepareAll();
  document.addEventListener("skipmap:swap", prepareAll);
  document.addEventListener("click", (event) => {
    const button = event.target instanceof Element && event.target.closest("table[data-sortable] th > button.sort");
    if (!button) return;
    const header = /** @type {HTMLTableCellElement} */ (button.parentElement);
    const table = /** @type {HTMLTableElement} */ (header.closest("table"));
    const order = header.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
    orders.set(table, { column: header.cellIndex, order });
    arrange(table);
  });
}

/** @type {WeakMap<HTMLTableElement, {column: number, order: "ascending"|"descending"}>} */
const orders = new WeakMap();

function prepareAll() {
  for (const table of document.querySelectorAll("table[data-sortable]")) {
    if (table instanceof HTMLTableElement) prepare(table);
  }
}

/** @param {HTMLTableElement} table */
function prepare(table) {
  for (const header of headersOf(table)) {
    if (header.hasAttribute("data-no-sort") || header.querySelector("button") || !header.textContent?.trim()) continue;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "sort";
    button.append(...header.childNodes);
    header.append(button);
  }
  if (orders.has(table)) arrange(table);
}

/** @param {HTMLTableElement} table */
function headersOf(table) {
  return [...(table.tHead?.rows[0]?.cells ?? [])];
}

/** @param {HTMLTableElement} table */
function arrange(table) {
  const chosen = orders.get(table);
  const body = table.tBodies[0];
  if (!chosen || !body) return;
  for (const header of headersOf(table)) {
    if (header.cellIndex === chosen.column) header.setAttribute("aria-sort", chosen.order);
    else header.removeAttribute("aria-sort");
  }
  const sign = ORDERS[chosen.order];
  const rows = [...body.rows].map((row) => ({ row, key: keyOf(row.cells[chosen.column]) }));
  rows.sort((first, second) => compare(first.key, second.key, sign));
  const isSorted = rows.every(({ row }, index) => body.rows[index] === row);
  if (!isSorted) body.append(...rows.map(({ row }) => row));
}

/** @param {HTMLTableCellElement|undefined} cell @returns {string|number|null} */
function keyOf(cell) {
  const text = cell?.getAttribute("data-value") ?? cell?.textContent?.trim() ?? "";
  if (text === "" || text === "\u2013") return null;
  return Number.isNaN(Number(text)) ? text : Number(text);
}

/** @param {string|number|null} first @param {string|number|null} second @param {number} sign */
function compare(first, second, sign) {
  if (first === null || second === null) return Number(first === null) - Number(second === null);
  if (typeof first === "number" && typeof second === "number") return sign * (first - second);
  return sign * String(first).localeCompare(String(second), "en", { numeric: true });
}
