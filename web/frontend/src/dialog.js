/**
 * Questions and small forms in a <dialog>.
 *
 * A link with `data-dialog` opens its page's part `dialog` (header `X-Fragment: dialog`) in a modal dialog; without
 * scripts, or when that fails, the link leads to the page itself. Inside, links with `data-dialog-close` (the way back)
 * close it, as Escape and a press outside do; focus then returns to the link. Its forms are sent as on a page.
 */
import { ask, RequestFailed } from "./requests.js";
import { sessionIsOver } from "./session.js";
import { toast } from "./toasts.js";

/** Opens and closes dialogs by the page's links. */
export function start() {
  document.addEventListener("click", (event) => {
    if (!(event.target instanceof Element) || event.defaultPrevented) return;
    const closing = event.target.closest("dialog [data-dialog-close]");
    if (closing) {
      event.preventDefault();
      closing.closest("dialog")?.close();
      return;
    }
    const link = event.target.closest("a[data-dialog]");
    if (!(link instanceof HTMLAnchorElement) || !isPlain(event)) return;
    event.preventDefault();
    void open(link);
  });
}

/** Whether a press asks for nothing special, such as a new tab. @param {MouseEvent} event */
function isPlain(event) {
  return event.button === 0 && !(event.metaKey || event.ctrlKey || event.shiftKey || event.altKey);
}

/** @param {HTMLAnchorElement} link */
async function open(link) {
  if (link.getAttribute("aria-busy") === "true") return;
  link.setAttribute("aria-busy", "true");
  try {
    const answer = await ask(link.href, { fragment: "dialog" });
    show(await answer.text(), link);
  } catch (error) {
    if (!(error instanceof RequestFailed)) throw error;
    if (error.status === 401) sessionIsOver();
    else toast("bad", error.message);
  } finally {
    link.removeAttribute("aria-busy");
  }
}

/** @param {string} content @param {HTMLElement} opener */
function show(content, opener) {
  const dialog = document.createElement("dialog");
  dialog.className = "dialog";
  // From this site's own templates, which escape what people gave.
  dialog.append(...new DOMParser().parseFromString(content, "text/html").body.childNodes);
  const heading = dialog.querySelector("h1, h2");
  if (heading) {
    heading.id ||= "dialog-title";
    dialog.setAttribute("aria-labelledby", heading.id);
  }
  document.body.append(dialog);
  dialog.addEventListener("close", () => {
    dialog.remove();
    focusAgain(opener);
  });
  closeOnPressOutside(dialog);
  dialog.showModal();
  dialog.dispatchEvent(new CustomEvent("skipmap:swap", { bubbles: true }));
}

/** @param {HTMLElement} opener */
function focusAgain(opener) {
  // A live part may have replaced the link meanwhile.
  const href = opener.getAttribute("href");
  const same = [...document.querySelectorAll("a[data-dialog]")].find((link) => link.getAttribute("href") === href);
  const target = opener.isConnected ? opener : (same ?? document.querySelector("main"));
  if (target instanceof HTMLElement) target.focus();
}

/** A press that begins and ends outside closes; not when something is typed. @param {HTMLDialogElement} dialog */
function closeOnPressOutside(dialog) {
  let began = false;
  dialog.addEventListener("pointerdown", (event) => {
    began = event.target === dialog && isOutside(dialog, event);
  });
  dialog.addEventListener("click", (event) => {
    if (began && event.target === dialog && isOutside(dialog, event) && !isTyped(dialog)) dialog.close();
  });
}

/** @param {HTMLDialogElement} dialog @param {MouseEvent} event */
function isOutside(dialog, event) {
  const box = dialog.getBoundingClientRect();
  const { clientX: x, clientY: y } = event;
  return x < box.left || x > box.right || y < box.top || y > box.bottom;
}

/** @param {HTMLDialogElement} dialog */
function isTyped(dialog) {
  return [...dialog.querySelectorAll("textarea, input:not([type=hidden])")].some(
    (field) => "value" in field && "defaultValue" in field && field.value !== field.defaultValue,
  );
}
