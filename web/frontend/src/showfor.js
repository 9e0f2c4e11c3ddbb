/**
 * Parts of a form that belong to a choice: an element with `data-show-for="NAME:VALUE,VALUE"` shows only while the control
 * NAME of its form has one of the values. Controls in what is hidden are disabled too, so that they are not sent. Without
 * scripts all is shown.
 */
const CONTROLS = "[data-show-for] :is(input, select, textarea, button)";

/** Shows and hides, now and at every change. */
export function start() {
  arrange();
  document.addEventListener("change", arrange);
  document.addEventListener("skipmap:swap", arrange);
  // The form has its first values again only after the event.
  document.addEventListener("reset", () => setTimeout(arrange));
}

function arrange() {
  for (const part of document.querySelectorAll("[data-show-for]")) {
    if (part instanceof HTMLElement) part.hidden = !isWanted(part);
  }
  for (const control of document.querySelectorAll(CONTROLS)) {
    const isHidden = control.closest("[data-show-for][hidden]") !== null;
    // One that the page itself has disabled stays so.
    if (isHidden && !control.hasAttribute("disabled")) {
      control.setAttribute("disabled", "");
      control.setAttribute("data-off", "");
    } else if (!isHidden && control.hasAttribute("data-off")) {
      control.removeAttribute("disabled");
      control.removeAttribute("data-off");
    }
  }
}

/** @param {HTMLElement} part */
function isWanted(part) {
  const [name, values] = (part.dataset.showFor ?? "").split(/:(.*)/s);
  const form = part.closest("form");
  return !form || (values ?? "").split(",").includes(valueOf(form, name));
}

/** @param {HTMLFormElement} form @param {string} name */
function valueOf(form, name) {
  const control = form.elements.namedItem(name);
  if (control instanceof RadioNodeList) return control.value;
  if (control instanceof HTMLInputElement && control.type === "checkbox") return control.checked ? control.value : "";
  return control && "value" in control ? String(control.value) : "";
}
