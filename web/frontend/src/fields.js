/** Fields of a form and what is said about them, as the templates of forms (`macros/form.html`) draw it. */
import { icon } from "./icons.js";
import { isTouched } from "./morph.js";

/** @param {string} name of a control @returns {string} the beginning of the ids of what belongs to it */
export function idOf(name) {
  return `f-${name.replaceAll(".", "-")}`;
}

/**
 * Everything of a form that can be wrong: its named controls, and groups of choices as one.
 * @param {HTMLFormElement} form
 * @returns {HTMLElement[]}
 */
export function fieldsOf(form) {
  return [...form.elements].filter((each) => each instanceof HTMLElement && isField(each)).map((each) => /** @type {HTMLElement} */ (each));
}

/** @param {Element} element */
function isField(element) {
  if (!element.getAttribute("name") || element.matches("[type=hidden], [type=radio]")) return false;
  return element.matches("fieldset.field, select, textarea, input") && groupOf(element) === null;
}

/** The group of choices that a control is one of. @param {Element} control */
function groupOf(control) {
  const group = control.parentElement?.closest("fieldset.field[name]") ?? null;
  return group?.getAttribute("name") === control.getAttribute("name") ? group : null;
}

/** The field that a control belongs to. @param {Element} control @returns {HTMLElement|null} */
export function fieldOf(control) {
  const field = groupOf(control) ?? control;
  return field instanceof HTMLElement && isField(field) ? field : null;
}

/** @param {Element} field @returns {boolean} */
export function isWrong(field) {
  return field.getAttribute("aria-invalid") === "true";
}

/** Whether a field holds what the page came with. @param {HTMLElement} field */
export function isAsSent(field) {
  const controls = field instanceof HTMLFieldSetElement ? [...field.querySelectorAll("input")] : [field];
  return !controls.some(isTouched);
}

/**
 * Says what is wrong with a field, or, by null, that nothing is.
 * @param {HTMLElement} field
 * @param {string|null} text
 */
export function setError(field, text) {
  const id = `${idOf(field.getAttribute("name") ?? "")}-error`;
  let place = document.getElementById(id);
  if (text === null) {
    place?.remove();
    field.removeAttribute("aria-invalid");
  } else {
    if (!place) {
      place = document.createElement("p");
      place.className = "field-error";
      place.id = id;
      place.append(icon("warning"), document.createElement("span"));
      field.closest(".field")?.querySelector(".field-below")?.prepend(place);
    }
    const words = place.querySelector("span") ?? place;
    if (words.textContent !== text) words.textContent = text;
    field.setAttribute("aria-invalid", "true");
  }
  field.closest(".field")?.classList.toggle("field-bad", text !== null);
  describe(field, id, text !== null);
}

/** @param {HTMLElement} field @returns {string} what is said to be wrong */
export function errorOf(field) {
  const place = document.getElementById(`${idOf(field.getAttribute("name") ?? "")}-error`);
  return place?.textContent?.trim() ?? "";
}

/** @param {HTMLElement} field @param {string} id @param {boolean} isTold */
function describe(field, id, isTold) {
  const ids = (field.getAttribute("aria-describedby") ?? "").split(/\s+/).filter((each) => each && each !== id);
  if (isTold) ids.push(id);
  if (ids.length) field.setAttribute("aria-describedby", ids.join(" "));
  else field.removeAttribute("aria-describedby");
}
