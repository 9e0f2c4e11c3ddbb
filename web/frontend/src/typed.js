/**
 * What is typed into a form with `data-keep="MARK"` outlives a reload of its page, also of one that a refused form came
 * back in: the tab's own storage keeps what differs from the page, never passwords, files or hidden fields.
 *
 * A page that is opened anew begins as the server made it. Once the form has done its work, the page that follows names its
 * mark in `<meta name="sent-forms">`, and nothing is kept any longer. Nor does anybody see what somebody else has typed.
 */
import { isTouched } from "./morph.js";

const PREFIX = "skipmap-typed:";
const REST_MILLISECONDS = 250;

/** @typedef {{mark: string, user: string, values: Record<string, string|boolean>}} Kept */

/** Forms of which something is still to be kept. @type {Map<HTMLFormElement, ReturnType<typeof setTimeout>>} */
const timers = new Map();

/** Brings back what was typed, and keeps what will be. To be started after what follows forms. */
export function start() {
  const storage = storageOfTab();
  if (!storage) return;
  const user = meta("user");
  forget(storage, meta("sent-forms").split(" "), user);
  const isAgain = isSeenAgain();
  for (const form of document.querySelectorAll("form[data-keep]")) {
    if (!(form instanceof HTMLFormElement)) continue;
    if (isAgain) bringBack(storage, form);
    else storage.removeItem(keyOf(form));
    for (const kind of ["input", "change"]) form.addEventListener(kind, () => keepSoon(storage, form, user));
  }
  addEventListener("pagehide", () => [...timers.keys()].forEach((form) => keep(storage, form, user)));
}

/** @returns {Storage|undefined} none where the browser's settings forbid it */
function storageOfTab() {
  try {
    sessionStorage.removeItem(`${PREFIX}-`);
    return sessionStorage;
  } catch {
    return undefined;
  }
}

/** @param {string} name */
function meta(name) {
  return document.querySelector(`meta[name="${name}"]`)?.getAttribute("content") ?? "";
}

/** Whether the page was reloaded, or is one of those behind "back". */
function isSeenAgain() {
  const [entry] = performance.getEntriesByType("navigation");
  return entry instanceof PerformanceNavigationTiming && ["reload", "back_forward"].includes(entry.type);
}

/** @param {HTMLFormElement} form */
function keyOf(form) {
  return `${PREFIX}${location.pathname}${location.search}#${form.id}`;
}

/** @param {Storage} storage @param {string} key @returns {Kept|undefined} */
function read(storage, key) {
  try {
    return JSON.parse(storage.getItem(key) ?? "null") ?? undefined;
  } catch {
    return undefined;
  }
}

/** Drops what was sent, and what somebody else has typed. @param {Storage} storage @param {string[]} sent @param {string} user */
function forget(storage, sent, user) {
  const keys = Array.from({ length: storage.length }, (_, index) => storage.key(index) ?? "");
  for (const key of keys.filter((each) => each.startsWith(PREFIX))) {
    const kept = read(storage, key);
    if (!kept || sent.includes(kept.mark) || (user && kept.user !== user)) storage.removeItem(key);
  }
}

/** @param {HTMLFormElement} form */
function controlsOf(form) {
  return [...form.elements].filter(
    (each) =>
      each.id &&
      (each instanceof HTMLSelectElement ||
        each instanceof HTMLTextAreaElement ||
        (each instanceof HTMLInputElement && !["hidden", "file", "password", "submit", "button"].includes(each.type))),
  );
}

/** @param {Storage} storage @param {HTMLFormElement} form */
function bringBack(storage, form) {
  const values = read(storage, keyOf(form))?.values ?? {};
  for (const control of controlsOf(form)) {
    const value = values[control.id];
    if (value === undefined || !takes(control, value)) continue;
    if (control instanceof HTMLInputElement && typeof value === "boolean") control.checked = value;
    else if ("value" in control) control.value = String(value);
    control.dispatchEvent(new Event("change", { bubbles: true }));
  }
}

/** Whether a list still has what was chosen. @param {Element} control @param {string|boolean} value */
function takes(control, value) {
  return !(control instanceof HTMLSelectElement) || [...control.options].some((option) => option.value === value);
}

/** @param {Storage} storage @param {HTMLFormElement} form @param {string} user */
function keepSoon(storage, form, user) {
  clearTimeout(timers.get(form));
  timers.set(form, setTimeout(() => keep(storage, form, user), REST_MILLISECONDS));
}

/** @param {Storage} storage @param {HTMLFormElement} form @param {string} user */
function keep(storage, form, user) {
  clearTimeout(timers.get(form));
  timers.delete(form);
  /** @type {Record<string, string|boolean>} */
  const values = {};
  for (const control of controlsOf(form)) {
    if (!isTouched(control)) continue;
    const isTick = control instanceof HTMLInputElement && ["checkbox", "radio"].includes(control.type);
    values[control.id] = isTick ? control.checked : "value" in control ? String(control.value) : "";
  }
  try {
    storage.setItem(keyOf(form), JSON.stringify({ mark: form.dataset.keep ?? "", user, values }));
  } catch {
    // The storage is full; then a reload begins anew.
  }
}
