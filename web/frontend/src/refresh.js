/**
 * Regions that follow a form: `<div data-refresh-from="FORM-ID" data-refresh-url="/jobs/estimate">` gets what the address
 * answers to the form's fields, as they are, each time the form changes (and rests for 400 ms). Files are not sent.
 *
 * The part that is asked for (`X-Fragment`) is `data-refresh-part`, else the last word of the address. It should begin with a
 * line of role "status" that says in short what is new: all of it read out at each change would be too much. A region that
 * is empty at first is filled at once, or when the closed <details> around it is opened.
 *
 * An answer that asks for a little patience (`Retry-After`) leaves what is there, and is asked for again a few times.
 */
import { morph } from "./morph.js";
import { ask, pauseAfter, RequestFailed } from "./requests.js";
import { sessionIsOver } from "./session.js";

const REST_MILLISECONDS = 400;
const SOON_SECONDS = 5;
const MOST_FAILURES = 3;
/** @type {WeakMap<Element, ReturnType<typeof setTimeout>>} */
const timers = new WeakMap();
/** @type {WeakMap<Element, AbortController>} */
const running = new WeakMap();
/** Regions that nobody sees at present and that have to be fetched. @type {Set<Element>} */
const waiting = new Set();

/** Follows every form that a region names. */
export function start() {
  for (const kind of ["input", "change", "reset"]) document.addEventListener(kind, (event) => onChange(event.target));
  document.addEventListener("toggle", (event) => onOpen(event.target), true);
  for (const region of regions()) if (!region.textContent?.trim()) void refresh(region);
}

/** @returns {HTMLElement[]} */
function regions() {
  return [...document.querySelectorAll("[data-refresh-from]")].filter((region) => region instanceof HTMLElement);
}

/** @param {EventTarget|null} target */
function onChange(target) {
  if (!(target instanceof Element)) return;
  const form = target instanceof HTMLFormElement ? target : "form" in target ? target.form : target.closest("form");
  if (!(form instanceof HTMLFormElement)) return;
  for (const region of regions().filter((each) => each.dataset.refreshFrom === form.id)) {
    clearTimeout(timers.get(region));
    timers.set(region, setTimeout(() => void refresh(region), REST_MILLISECONDS));
  }
}

/** @param {EventTarget|null} details */
function onOpen(details) {
  if (!(details instanceof HTMLDetailsElement) || !details.open) return;
  for (const region of regions()) if (waiting.delete(region)) void refresh(region);
}

/** @param {HTMLElement} region @param {number} [failures] in a row */
async function refresh(region, failures = 0) {
  if (region.closest("details:not([open])")) {
    waiting.add(region);
    return;
  }
  const form = document.getElementById(region.dataset.refreshFrom ?? "");
  const address = region.dataset.refreshUrl;
  if (!(form instanceof HTMLFormElement) || !address) return;
  running.get(region)?.abort();
  const control = new AbortController();
  running.set(region, control);
  region.setAttribute("aria-busy", "true");
  try {
    const fragment = region.dataset.refreshPart ?? address.split(/[?#]/)[0].split("/").pop();
    const answer = await ask(address, { fragment, body: fieldsOf(form), signal: control.signal });
    morph(region, await answer.text());
  } catch (error) {
    if (control.signal.aborted) return; // A later change is on its way.
    if (!(error instanceof RequestFailed)) throw error;
    const { retrySeconds } = error;
    if (0 < retrySeconds && retrySeconds <= SOON_SECONDS && failures < MOST_FAILURES) {
      const pause = pauseAfter(failures + 1, { retrySeconds });
      timers.set(region, setTimeout(() => void refresh(region, failures + 1), pause));
      return;
    }
    tell(region, error);
  }
  region.removeAttribute("aria-busy");
}

/** @param {HTMLFormElement} form */
function fieldsOf(form) {
  const fields = new URLSearchParams();
  for (const [name, value] of new FormData(form)) if (typeof value === "string") fields.append(name, value);
  return fields;
}

/** @param {HTMLElement} region @param {RequestFailed} error */
function tell(region, error) {
  if (error.status === 401) sessionIsOver();
  const text = document.createElement("p");
  text.className = "muted";
  text.setAttribute("role", "alert");
  text.textContent = error.message;
  region.replaceChildren(text);
}
