/**
 * Copying: `<button data-copy="#id">` copies the value or the text of the element it names, and says so.
 */
import { toast } from "./toasts.js";

const SECONDS = 2;

/** Copies at a press of such a button. */
export function start() {
  document.addEventListener("click", (event) => {
    const button = event.target instanceof Element && event.target.closest("[data-copy]");
    if (!button) return;
    const source = document.querySelector(button.getAttribute("data-copy") ?? "");
    if (source) void copy(textOf(source), button);
  });
}

/**
 * Puts a text into the clipboard; the button says "Copied" for a while.
 * @param {string} text
 * @param {Element} button
 */
export async function copy(text, button) {
  if (await write(text)) say(button, "Copied");
  else toast("warning", "This browser does not allow copying. Select the text and copy it by hand.");
}

/** @param {Element} source */
function textOf(source) {
  const hasValue = source instanceof HTMLInputElement || source instanceof HTMLTextAreaElement;
  return hasValue ? source.value : (source.textContent ?? "").trim();
}

/** @param {string} text @returns {Promise<boolean>} whether it worked */
async function write(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return writeByHand(text); // Pages that come by plain http have no clipboard of their own.
  }
}

/** @param {string} text */
function writeByHand(text) {
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "visually-hidden";
  // Outside of an open dialog nothing can be selected.
  const place = document.querySelector("dialog[open]") ?? document.body;
  const focused = document.activeElement;
  place.append(field);
  field.select();
  const worked = document.execCommand("copy");
  field.remove();
  if (focused instanceof HTMLElement) focused.focus();
  return worked;
}

/** @param {Element} button @param {string} word */
function say(button, word) {
  const label = button.querySelector("span") ?? button;
  if (label.hasAttribute("data-said")) return;
  const before = label.textContent;
  label.setAttribute("data-said", "");
  label.setAttribute("aria-live", "polite");
  label.textContent = word;
  setTimeout(() => {
    label.textContent = before;
    label.removeAttribute("data-said");
  }, SECONDS * 1000);
}
