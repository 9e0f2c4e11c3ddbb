/**
 * Toasts: short messages in the corner.
 *
 * `<ol data-toasts>` holds them, each `<li class="toast toast-KIND">` with a button `data-toast-close`. Kinds: good, info,
 * warning, bad. Good news and hints go after a while, unless the pointer or the focus rests on them; the others stay.
 * The list is in a live region, of which only changes are read out: what a page comes with is put there once more.
 */
const SECONDS = 8;
/** Screen readers have found the region by then. */
const REST_MILLISECONDS = 300;
const ICONS = { good: "check", info: "info", warning: "warning", bad: "warning" };

/** Closes by button, and has the server's own messages read out. */
export function start() {
  document.addEventListener("click", (event) => {
    const button = event.target instanceof Element && event.target.closest("[data-toast-close]");
    if (button) button.closest(".toast")?.remove();
  });
  const items = [...document.querySelectorAll("[data-toasts] > .toast")];
  if (!items.length) return;
  for (const item of items) item.remove();
  const show = () => setTimeout(() => items.forEach(add), REST_MILLISECONDS);
  if (document.readyState === "complete") show();
  else addEventListener("load", show, { once: true });
}

/** @param {Element} item */
function add(item) {
  listOf().append(item);
  if (item.matches(".toast-good, .toast-info")) fade(item);
}

/**
 * Shows a message; one that stands there already is not repeated.
 * @param {"good"|"info"|"warning"|"bad"} kind
 * @param {string} message
 * @param {{link?: {label: string, href: string}}} [more] `link` opens in a tab of its own
 * @returns {Element} the toast
 */
export function toast(kind, message, { link } = {}) {
  const same = [...listOf().children].find((each) => each.querySelector("p")?.firstChild?.textContent === message);
  if (same) return same;
  const item = document.createElement("li");
  item.className = `toast toast-${kind}`;
  const text = document.createElement("p");
  text.append(message);
  if (link) {
    const anchor = document.createElement("a");
    Object.assign(anchor, { href: link.href, textContent: link.label, target: "_blank", rel: "noopener" });
    text.append(" ", anchor);
  }
  const close = document.createElement("button");
  close.type = "button";
  close.className = "icon-button";
  close.setAttribute("data-toast-close", "");
  close.setAttribute("aria-label", "Dismiss");
  close.append(icon("cross"));
  item.append(icon(ICONS[kind]), text, close);
  // What went wrong is read out at once, the rest when the reader is free.
  if (kind === "bad") text.setAttribute("role", "alert");
  add(item);
  return item;
}

/** @returns {Element} the page's list, made where a page has none */
function listOf() {
  const found = document.querySelector("[data-toasts]");
  if (found) return found;
  const place = document.createElement("div");
  place.className = "toasts";
  place.setAttribute("role", "status");
  const list = document.createElement("ol");
  list.setAttribute("data-toasts", "");
  place.append(list);
  document.body.append(place);
  return list;
}

/** @param {string} name one of the page's own icons */
function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("class", `icon icon-${name}`);
  svg.setAttribute("width", "16");
  svg.setAttribute("height", "16");
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  use.setAttribute("href", `#icon-${name}`);
  svg.append(use);
  return svg;
}

/** @param {Element} item */
function fade(item) {
  const wait = () => {
    if (item.matches(":hover") || item.matches(":focus-within")) setTimeout(wait, 1000);
    else item.remove();
  };
  setTimeout(wait, SECONDS * 1000);
}
