/**
 * Tables as data: rows by the names of their columns, with the exact figures of `data-value` where cells have one.
 *
 * A column whose header has `data-no-export`, or no text, is left out. Headers of several rows are joined: a group over two
 * columns stands before the name of each.
 */

/**
 * @typedef {string|number|boolean|null} Value
 * @typedef {{columns: string[], rows: Value[][]}} Data
 */

const NUMBER = /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i;
const NOTHING = ["", "\u2013"];
/** A spreadsheet would run text that begins so. */
const FORMULA = /^[=+\-@\t\r]/;

/** @param {HTMLTableElement} table @returns {Data} */
export function dataOf(table) {
  const heads = grid([...(table.tHead?.rows ?? [])]);
  const width = Math.max(0, ...heads.map((row) => row.length));
  const places = Array.from({ length: width }, (_, index) => index).filter((index) =>
    heads.every((row) => !row[index]?.hasAttribute("data-no-export")),
  );
  const named = places.map((index) => ({ index, name: nameOf(heads.map((row) => row[index])) }));
  const kept = named.filter(({ name }) => name);
  const rows = grid([...table.tBodies].flatMap((body) => [...body.rows]));
  return {
    columns: distinct(kept.map(({ name }) => name)),
    rows: rows.map((row) => kept.map(({ index }) => valueOf(row[index]))),
  };
}

/** @param {Data} data @returns {string} as RFC 4180 has it */
export function csvOf({ columns, rows }) {
  return [columns, ...rows].map((row) => row.map(csvCell).join(",") + "\r\n").join("");
}

/** @param {Data} data @returns {string} a list of objects */
export function jsonOf({ columns, rows }) {
  const items = rows.map((row) => Object.fromEntries(row.map((value, index) => [columns[index], value])));
  return JSON.stringify(items, null, 2) + "\n";
}

/** @param {Value} value */
function csvCell(value) {
  if (value === null) return "";
  if (typeof value !== "string") return String(value);
  const safe = FORMULA.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** @param {HTMLTableCellElement|undefined} cell @returns {Value} */
function valueOf(cell) {
  if (!cell) return null;
  const exact = cell.getAttribute("data-value");
  const text = exact ?? textOf(cell);
  if (NOTHING.includes(text)) return null;
  if (exact === null) return text;
  if (exact === "true" || exact === "false") return exact === "true";
  return NUMBER.test(exact) ? Number(exact) : exact;
}

/** What a cell shows, without what only screen readers get. @param {Element} cell */
function textOf(cell) {
  const copy = /** @type {Element} */ (cell.cloneNode(true));
  for (const hidden of copy.querySelectorAll(".visually-hidden, [hidden], [aria-hidden=true]")) hidden.remove();
  return (copy.textContent ?? "").replace(/\s+/g, " ").trim();
}

/** @param {(HTMLTableCellElement|undefined)[]} cells of one column, from the top */
function nameOf(cells) {
  const names = cells.map((cell) => (cell ? textOf(cell) : ""));
  return names.filter((name, index) => name && cells.indexOf(cells[index]) === index).join(" ");
}

/** @param {string[]} names */
function distinct(names) {
  /** @type {Map<string, number>} */
  const seen = new Map();
  return names.map((name) => {
    const count = (seen.get(name) ?? 0) + 1;
    seen.set(name, count);
    return count === 1 ? name : `${name} (${count})`;
  });
}

/**
 * Cells by row and column, where a cell that spans several stands in each.
 * @param {HTMLTableRowElement[]} rows
 * @returns {(HTMLTableCellElement|undefined)[][]}
 */
function grid(rows) {
  /** @type {(HTMLTableCellElement|undefined)[][]} */
  const cells = rows.map(() => []);
  rows.forEach((row, top) => {
    let left = 0;
    for (const cell of row.cells) {
      while (cells[top][left]) left += 1;
      for (let down = 0; down < cell.rowSpan && top + down < rows.length; down += 1) {
        for (let right = 0; right < cell.colSpan; right += 1) cells[top + down][left + right] = cell;
      }
      left += cell.colSpan;
    }
  });
  return cells;
}
