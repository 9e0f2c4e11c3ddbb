/**
 * Toasts: short messages in a strip above the page's content, which moves down for them, so that they cover nothing.
 *
 * `<div class="toasts" role="status"><ol data-toasts>` holds them, each `<li class="toast toast-KIND">` with a button
 * `data-toast-close`. Kinds: good, info, warning, bad. Good news and hints go after a while, once the person rests and
 * neither pointer nor focus is on them; the others stay. Where the strip is out of sight, it sticks to the top of the window.
 */
import { announce } from "./announce.js";
import { icon } from "./icons.js";

const SECONDS = 15;
/** When nobody is about to press what would move. */
const REST_SECONDS = 1.5;
/** Screen readers have found the page's regions by then. */
const OPENING_MILLISECONDS = 300;
const ICONS = { good: "check", info: "info", warning: "warning", bad: "warning" };
const ACTIVITY = ["pointermove", "pointerdown", "keydown", "wheel", "scroll"];
let activeAt = 0;

/** Closes by button, and has the server's own messages read out. */
export function start() {
  for (const kind of ACTIVITY) addEventListener(kind, noteActivity, { passive: true, capture: true });
  document.addEventListener("click", (event) => {
    const button = event.target instanceof Element && event.target.closest("[data-toast-close]");
    const item = button && button.closest(".toast");
    if (item) remove(item);
  });
  const items = [...document.querySelectorAll("[data-toasts] > .toast")];
  if (!items.length) return;
  // A page is not read from its regions: only what changes in one is.
  const show = () => setTimeout(() => items.forEach(open), OPENING_MILLISECONDS);
  if (document.readyState === "complete") show();
  else addEventListener("load", show, { once: true });
}

function noteActivity() {
  activeAt = performance.now();
}

/** @param {Element} item a message that the page came with */
function open(item) {
  announce(textOf(item));
  if (isPassing(item)) fade(item);
}

/**
 * Shows a message; one that stands there already is not repeated.
 * @param {"good"|"info"|"warning"|"bad"} kind
 * @param {string} message
 * @param {{link?: {label: string, href: string}}} [more] `link` opens in a tab of its own
 * @returns {Element} the toast
 */
export function toast(kind, message, { link } = {}) {
  const list = listOf();
  const same = [...list.children].find((each) => each.querySelector("p")?.firstChild?.textContent === message);
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
  add(item, list);
  return item;
}

/** @param {Element} item @param {Element} list */
function add(item, list) {
  change(list, () => list.append(item));
  if (isPassing(item)) fade(item);
}

/** Takes a message away. @param {Element} item */
export function remove(item) {
  const list = item.closest("[data-toasts]");
  if (list) change(list, () => item.remove());
}

/**
 * Changes a list so that what is in view moves by as much as the strip grows or shrinks there, and by nothing else.
 * @param {Element} list
 * @param {() => void} work
 */
function change(list, work) {
  const strip = list.parentElement;
  if (!strip || strip.closest("dialog")) {
    work();
    return;
  }
  const root = document.documentElement;
  // Browsers would scroll on, to leave in its place what the strip then covers.
  root.style.overflowAnchor = "none";
  const before = strip.getBoundingClientRect();
  work();
  const isAway = before.bottom < 0 || (before.height === 0 && before.top < 0);
  if (!list.children.length) strip.removeAttribute("data-stuck");
  else if (isAway) strip.setAttribute("data-stuck", "");
  const after = strip.getBoundingClientRect();
  // What gets the focus is scrolled to below it.
  root.style.setProperty("--stuck", strip.hasAttribute("data-stuck") ? `${after.height}px` : "0px");
  const grown = after.height - before.height;
  const covered = Math.max(0, after.bottom) - Math.max(0, before.bottom);
  if (Math.abs(grown - covered) >= 1) scrollBy({ top: grown - covered, behavior: "instant" });
  requestAnimationFrame(() => requestAnimationFrame(() => root.style.removeProperty("overflow-anchor")));
}

/** @returns {Element} the list of the page or of the dialog that is open, made where there is none */
function listOf() {
  const dialog = document.querySelector("dialog[open]");
  const found = (dialog ?? document).querySelector("[data-toasts]");
  if (found) return found;
  const strip = document.createElement("div");
  strip.className = "toasts";
  strip.setAttribute("role", "status");
  const list = document.createElement("ol");
  list.setAttribute("data-toasts", "");
  strip.append(list);
  (dialog ?? document.body).prepend(strip);
  // What nobody has read yet stays when the dialog goes.
  dialog?.addEventListener("close", () => [...list.children].forEach((item) => add(item, listOf())), { once: true });
  return list;
}

/** @param {Element} item */
function isPassing(item) {
  return item.matches(".toast-good, .toast-info");
}

/** @param {Element} item */
function textOf(item) {
  return item.querySelector("p")?.textContent?.trim() ?? "";
}

/** @param {Element} item */
function fade(item) {
  const wait = () => {
    if (!item.isConnected) return;
    const isBusy = document.hidden || performance.now() - activeAt < REST_SECONDS * 1000;
    if (isBusy || item.matches(":hover") || item.matches(":focus-within")) setTimeout(wait, 500);
    else remove(item);
  };
  setTimeout(wait, SECONDS * 1000);
}
