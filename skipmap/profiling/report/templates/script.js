"use strict";
(() => {
  const root = document.documentElement;
  const button = document.createElement("button");
  const isDark = () => getComputedStyle(root).colorScheme === "dark" ||
    (getComputedStyle(root).colorScheme !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
  const name = () => { button.textContent = isDark() ? "Light theme" : "Dark theme"; };
  button.type = "button";
  button.addEventListener("click", () => { root.style.colorScheme = isDark() ? "light" : "dark"; name(); });
  name();
  document.getElementById("tools").append(button);

  const value = (row, column) => {
    const cell = row.cells[column];
    if (cell.dataset.v === undefined) return cell.textContent.trim();
    return cell.dataset.v === "" ? -Infinity : Number(cell.dataset.v);
  };
  const compare = (a, b) => typeof a === "number" && typeof b === "number" ? (a === b ? 0 : a - b)
    : String(a).localeCompare(String(b), undefined, { numeric: true });
  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const sorter = document.createElement("button");
      sorter.type = "button";
      sorter.className = "sorter";
      sorter.append(...head.childNodes);
      head.append(sorter);
      sorter.addEventListener("click", () => {
        const first = head.classList.contains("num") ? "descending" : "ascending";
        const other = first === "descending" ? "ascending" : "descending";
        const order = head.getAttribute("aria-sort") === first ? other : first;
        heads.forEach((each) => each.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", order);
        const sign = order === "ascending" ? 1 : -1;
        const rows = [...table.tBodies[0].rows];
        rows.sort((a, b) => sign * compare(value(a, column), value(b, column)));
        table.tBodies[0].append(...rows);
      });
    });
  }

  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    opened.forEach((each) => { each.open = true; });
  });
  addEventListener("afterprint", () => opened.forEach((each) => { each.open = false; }));
})();
