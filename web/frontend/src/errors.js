/**
 * Errors of fields: each was said of what the field held when the form was sent.
 *
 * While a field holds something else, its error is gone, below the field and in the list at the top of the form; with the
 * old content it is back. A form with `data-check-url` asks the server instead, which answers its fields with
 * `{errors, notes}`, texts by name: errors that are shown are brought up to date at every change (after a rest of 400 ms),
 * and a field that a person has left shows its own. Notes go into `<p class="field-note" id="f-NAME-note">`.
 */
import { announce } from "./announce.js";
import { errorOf, fieldOf, fieldsOf, idOf, isAsSent, isWrong, setError } from "./fields.js";
import { ask, RequestFailed } from "./requests.js";
import { sessionIsOver } from "./session.js";

const REST_MILLISECONDS = 400;

/** What the page came with about its wrong fields. @type {WeakMap<HTMLElement, string>} */
const told = new WeakMap();
/** Fields that a person has left after a change. @type {WeakSet<HTMLElement>} */
const left = new WeakSet();
/** @type {WeakMap<HTMLFormElement, ReturnType<typeof setTimeout>>} */
const timers = new WeakMap();
/** @type {WeakMap<HTMLFormElement, AbortController>} */
const running = new WeakMap();

/** Follows every form of the page, and of what comes into it later. */
export function start() {
  note(document);
  document.addEventListener("skipmap:swap", ({ target }) => note(target instanceof Element ? target : document));
  document.addEventListener("input", ({ target }) => onChange(target, false));
  document.addEventListener("change", ({ target }) => onChange(target, true));
}

/** @param {ParentNode} place */
function note(place) {
  for (const field of place.querySelectorAll("[aria-invalid=true]")) {
    if (!(field instanceof HTMLElement) || told.has(field)) continue;
    told.set(field, errorOf(field));
  }
}

/** @param {EventTarget|null} target @param {boolean} isOver whether the change is done */
function onChange(target, isOver) {
  const field = target instanceof Element ? fieldOf(target) : null;
  const form = field && "form" in field ? field.form : null;
  if (!field || !(form instanceof HTMLFormElement)) return;
  if (isOver) left.add(field);
  if (form.dataset.checkUrl && isChecked(field)) {
    if (isOver || checkedFieldsOf(form).some(isWrong)) checkSoon(form);
    return;
  }
  const text = told.get(field);
  if (text === undefined) return;
  setError(field, isAsSent(field) ? text : null);
  arrangeSummary(form);
}

/** Whether the server can look at it: it does not get files at every change. @param {HTMLElement} field */
function isChecked(field) {
  return field.getAttribute("type") !== "file";
}

/** @param {HTMLFormElement} form */
function checkedFieldsOf(form) {
  return fieldsOf(form).filter(isChecked);
}

/** @param {HTMLFormElement} form */
function checkSoon(form) {
  clearTimeout(timers.get(form));
  timers.set(form, setTimeout(() => void check(form), REST_MILLISECONDS));
}

/** @param {HTMLFormElement} form */
async function check(form) {
  running.get(form)?.abort();
  const control = new AbortController();
  running.set(form, control);
  const body = new URLSearchParams();
  for (const [name, value] of new FormData(form)) if (typeof value === "string") body.append(name, value);
  // What only a closer look shows is looked at while something is known to be wrong.
  if (checkedFieldsOf(form).some(isWrong)) body.append("closely", "true");
  try {
    const answer = await ask(form.dataset.checkUrl ?? "", { body, signal: control.signal });
    show(form, await answer.json());
  } catch (error) {
    if (control.signal.aborted) return; // A later change is on its way.
    if (!(error instanceof RequestFailed)) throw error;
    // What is shown stays; sending the form tells.
    if (error.status === 401) sessionIsOver();
  }
}

/** @param {HTMLFormElement} form @param {{errors: Record<string, string>, notes: Record<string, string>}} found */
function show(form, { errors, notes }) {
  for (const field of checkedFieldsOf(form)) {
    if (!isWrong(field) && !left.has(field)) continue;
    const name = field.getAttribute("name") ?? "";
    const text = errors[name] ?? null;
    if (text !== null && errorOf(field) !== text) announce(text);
    if (text !== null || isWrong(field)) setError(field, text);
  }
  for (const [name, text] of Object.entries(notes)) {
    const place = document.getElementById(`${idOf(name)}-note`);
    if (place && place.textContent !== text) place.textContent = text;
  }
  arrangeSummary(form);
}

/** Leaves out of the list at the top what is right now. @param {HTMLFormElement} form */
function arrangeSummary(form) {
  const box = document.querySelector("[data-error-summary]");
  if (!(box instanceof HTMLElement)) return;
  let count = 0;
  for (const item of box.querySelectorAll("li")) {
    const id = item.querySelector("a")?.getAttribute("href")?.slice(1) ?? "";
    const control = document.getElementById(id);
    const field = control && fieldOf(control);
    item.hidden = Boolean(field && form.contains(field) && !isWrong(field));
    if (!item.hidden) count += 1;
  }
  box.hidden = count === 0;
  const title = box.querySelector(".notice-title");
  if (title) title.textContent = count === 1 ? "One thing needs a change" : `${count} things need a change`;
}
