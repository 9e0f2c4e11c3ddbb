/**
 * Forms that are on their way: a second press of the button does not send a form twice.
 *
 * Meanwhile the form has `aria-busy="true"`. A form with errors of its own (`[data-error-summary]`) has them focused at
 * first, so that they are read out.
 */
const SECONDS = 10;

/** Watches every form of the page. */
export function start() {
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (!(form instanceof HTMLFormElement) || form.method !== "post" || event.defaultPrevented) return;
    if (form.getAttribute("aria-busy") === "true") event.preventDefault();
    else setBusy(form);
  });
  // A page that comes back from the browser's memory is as it was left.
  addEventListener("pageshow", () => {
    for (const form of document.querySelectorAll('form[aria-busy="true"]')) form.removeAttribute("aria-busy");
  });
  const errors = document.querySelector("[data-error-summary]");
  if (errors instanceof HTMLElement) errors.focus();
}

/** @param {HTMLFormElement} form */
function setBusy(form) {
  form.setAttribute("aria-busy", "true");
  // A form that answers with a file leaves the page where it is.
  setTimeout(() => form.removeAttribute("aria-busy"), SECONDS * 1000);
}
