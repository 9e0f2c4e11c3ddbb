/**
 * Filters that apply by themselves: a control with `data-autosubmit` sends its form (of method GET) when it changes.
 *
 * Empty fields are left out, so that addresses stay short. Choosing by keys waits a moment, since each arrow key is a
 * change of its own. On the page that comes, the same control has the focus again.
 */
const REST_MILLISECONDS = 700;
const KEY = "skipmap-focus";

/** @type {ReturnType<typeof setTimeout>|undefined} */
let timer;
let byKeys = false;

/** Sends at changes, and gives the focus back after the last one. */
export function start() {
  document.addEventListener("keydown", () => (byKeys = true), true);
  document.addEventListener("pointerdown", () => (byKeys = false), true);
  document.addEventListener("change", (event) => {
    const control = event.target;
    if (!(control instanceof HTMLElement) || !control.matches("[data-autosubmit]")) return;
    const form = control.closest("form");
    if (!form) return;
    clearTimeout(timer);
    timer = setTimeout(() => send(form, control), byKeys ? REST_MILLISECONDS : 0);
  });
  document.addEventListener("formdata", (event) => {
    if (!(event.target instanceof HTMLFormElement) || !event.target.querySelector("[data-autosubmit]")) return;
    const empty = [...event.formData].filter(([, value]) => value === "").map(([name]) => name);
    for (const name of empty) event.formData.delete(name);
  });
  focusAgain();
}

/** @param {HTMLFormElement} form @param {HTMLElement} control */
function send(form, control) {
  if (control.id) keep(control.id);
  form.requestSubmit();
}

/** @param {string} id */
function keep(id) {
  try {
    sessionStorage.setItem(KEY, id);
  } catch {
    // Then the focus begins at the top, as on any page.
  }
}

function focusAgain() {
  try {
    const id = sessionStorage.getItem(KEY);
    sessionStorage.removeItem(KEY);
    if (id) document.getElementById(id)?.focus({ preventScroll: true });
  } catch {
    // Nothing was kept.
  }
}
