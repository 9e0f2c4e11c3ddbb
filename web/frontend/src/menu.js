/**
 * Menus: `<details data-menu><summary>...</summary>...</details>`, which open and close without scripts too.
 *
 * Escape closes one and gives the focus back to its button; so do a press on an entry, a press outside and moving the focus
 * away. Only one is open at a time. Arrow keys, Home and End go through the entries.
 */
const ENTRIES = "a[href], button:not([disabled])";

/** Takes care of every menu of the page. */
export function start() {
  document.addEventListener("toggle", (event) => closeOthers(event.target), true);
  document.addEventListener("click", (event) => {
    const menu = openMenu();
    if (!menu || !(event.target instanceof Element)) return;
    if (!menu.contains(event.target)) close(menu, false);
    else if (event.target.closest(ENTRIES)) close(menu, true);
  });
  document.addEventListener("focusin", (event) => {
    const menu = openMenu();
    if (menu && event.target instanceof Node && !menu.contains(event.target)) close(menu, false);
  });
  document.addEventListener("keydown", onKey);
}

/** @returns {HTMLDetailsElement|null} */
function openMenu() {
  return document.querySelector("details[data-menu][open]");
}

/** @param {EventTarget|null} opened */
function closeOthers(opened) {
  if (!(opened instanceof HTMLDetailsElement && opened.matches("[data-menu][open]"))) return;
  for (const menu of document.querySelectorAll("details[data-menu][open]")) {
    if (menu !== opened) menu.removeAttribute("open");
  }
}

/** @param {HTMLDetailsElement} menu @param {boolean} takeFocus */
function close(menu, takeFocus) {
  menu.open = false;
  if (takeFocus && menu.contains(document.activeElement)) menu.querySelector("summary")?.focus();
}

/** @param {KeyboardEvent} event */
function onKey(event) {
  const menu = openMenu();
  if (!menu || !menu.contains(document.activeElement)) return;
  if (event.key === "Escape") {
    event.preventDefault();
    close(menu, true);
    return;
  }
  const entries = [...menu.querySelectorAll(ENTRIES)].filter((entry) => entry instanceof HTMLElement);
  const now = entries.findIndex((entry) => entry === document.activeElement);
  const next = { ArrowDown: now + 1, ArrowUp: now < 0 ? -1 : now - 1, Home: 0, End: -1 }[event.key];
  if (next === undefined || !entries.length) return;
  event.preventDefault();
  entries.at(next % entries.length)?.focus();
}
