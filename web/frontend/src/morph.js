/**
 * New content in the place of old, changing only what differs: what a person is doing there is kept.
 *
 * Kept are focus, what is typed or chosen and not yet sent, open <details> and dialogs, the plots of charts, headers that
 * sort, and what else scripts have added with the attribute `data-added`. The element then gets the event `skipmap:swap`,
 * which bubbles: whoever adds something to content does so again.
 */
import { Idiomorph } from "idiomorph";

/**
 * @param {Element} element whose children are replaced
 * @param {string|Node[]} content
 */
export function morph(element, content) {
  Idiomorph.morph(element, content, {
    morphStyle: "innerHTML",
    ignoreActiveValue: true,
    restoreFocus: true,
    callbacks: { beforeNodeMorphed: mayChange, beforeNodeRemoved: mayGo, beforeAttributeUpdated: mayUpdate },
  });
  element.dispatchEvent(new CustomEvent("skipmap:swap", { bubbles: true }));
}

/** @param {Node} node @param {Node} next @returns {boolean} */
function mayChange(node, next) {
  if (!(node instanceof Element)) return true;
  if (node.hasAttribute("data-chart-plot") || isTouched(node)) return false;
  const isSorter = node instanceof HTMLTableCellElement && node.querySelector(":scope > .sort") !== null;
  return !isSorter || node.textContent !== next.textContent;
}

/** @param {Node} node @returns {boolean} */
function mayGo(node) {
  return !(node instanceof Element && node.hasAttribute("data-added"));
}

/** @param {string} name @param {Element} element @returns {boolean} */
function mayUpdate(name, element) {
  return !(name === "open" && (element instanceof HTMLDetailsElement || element instanceof HTMLDialogElement));
}

/** Whether a control holds something else than what the page came with. @param {Element} control */
export function isTouched(control) {
  if (control instanceof HTMLTextAreaElement) return control.value !== control.defaultValue;
  if (control instanceof HTMLSelectElement) {
    const options = [...control.options];
    const first = options.some((option) => option.defaultSelected) ? -1 : 0;
    return options.some((option, index) => option.selected !== (option.defaultSelected || index === first));
  }
  if (!(control instanceof HTMLInputElement)) return false;
  if (control.type === "checkbox" || control.type === "radio") return control.checked !== control.defaultChecked;
  if (control.type === "file") return Boolean(control.files?.length);
  return control.type !== "hidden" && control.value !== control.defaultValue;
}
