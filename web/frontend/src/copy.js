/**
 * Copying: `<button data-copy="#id">` copies the value or the text of the element it names, and says so.
 */
import { announce } from "./announce.js";
import { toast } from "./toasts.js";

const SECONDS = 2.5;

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
 * Puts a text into the clipboard; the button says whether that worked, for a while.
 * @param {string} text
 * @param {Element} button
 */
export async function copy(text, button) {
  if (await write(text)) {
    say(button, "Copied", "check");
    announce("Copied.");
  } else {
    say(button, "Not copied", "warning");
    toast("warning", "This browser does not allow copying. Select the text and copy it by hand.");
  }
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

/** @type {WeakMap<Element, () => void>} */
const ends = new WeakMap();

/** Another word and icon on a button, which keeps its width meanwhile. @param {Element} button @param {string} word @param {string} icon */
function say(button, word, icon) {
  ends.get(button)?.();
  const label = button.querySelector("span") ?? button;
  const use = button.querySelector("svg use");
  const [text, href] = [label.textContent, use?.getAttribute("href")];
  const style = button instanceof HTMLElement ? button.style : undefined;
  style?.setProperty("min-inline-size", `${button.getBoundingClientRect().width}px`);
  label.textContent = word;
  use?.setAttribute("href", `#icon-${icon}`);
  const end = () => {
    clearTimeout(timer);
    ends.delete(button);
    label.textContent = text;
    if (href) use?.setAttribute("href", href);
    style?.removeProperty("min-inline-size");
  };
  const timer = setTimeout(end, SECONDS * 1000);
  ends.set(button, end);
}
