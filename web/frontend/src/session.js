/**
 * The end of a session while a page is open: says so once, and goes on when the person has signed in again in another tab.
 *
 * Nothing that was typed is lost: the page stays, and once it is shown again its forms get the new session's token, unless
 * it is somebody else's: `<meta name="user">` tells whose page it is. The document gets `skipmap:session-over` and
 * `skipmap:session-back`.
 */
import { ask, SITE } from "./requests.js";
import { remove, toast } from "./toasts.js";

let isOver = false;
/** @type {Element|undefined} */
let shown;

/** Watches for the tab to be shown again. */
export function start() {
  document.addEventListener("visibilitychange", () => {
    if (isOver && !document.hidden) void lookAgain();
  });
  addEventListener("focus", () => {
    if (isOver) void lookAgain();
  });
}

/** To be called when an answer has the status 401. */
export function sessionIsOver() {
  if (isOver) return;
  isOver = true;
  const address = new URL("sign-in", SITE);
  address.searchParams.set("next", location.pathname + location.search);
  shown = toast("warning", "Your session has ended. What you typed is still here.", {
    link: { label: "Sign in again in a new tab, then come back", href: address.href },
  });
  document.dispatchEvent(new CustomEvent("skipmap:session-over"));
}

async function lookAgain() {
  let text;
  try {
    const answer = await ask(location.href);
    text = await answer.text();
  } catch {
    return; // Still signed out, or no server: the toast still holds.
  }
  const page = new DOMParser().parseFromString(text, "text/html");
  const user = meta(page, "user");
  const token = meta(page, "csrf-token");
  if (!isOver || !user || !token) return;
  if (user !== meta(document, "user")) {
    refuse();
    return;
  }
  isOver = false;
  giveToken(token);
  if (shown) remove(shown);
  toast("good", "You are signed in again.");
  document.dispatchEvent(new CustomEvent("skipmap:session-back"));
}

/** What was typed must not be sent in another's name. */
function refuse() {
  const before = shown;
  const text = "Somebody else is signed in now. What you typed is still here, but it cannot be sent from this page.";
  shown = toast("warning", text, { link: { label: "Open the page anew in another tab", href: location.href } });
  if (before && before !== shown) remove(before);
}

/** @param {Document} page @param {string} name */
function meta(page, name) {
  return page.querySelector(`meta[name="${name}"]`)?.getAttribute("content") ?? "";
}

/** @param {string} token */
function giveToken(token) {
  document.querySelector('meta[name="csrf-token"]')?.setAttribute("content", token);
  for (const field of document.querySelectorAll('input[name="csrf_token"]')) field.setAttribute("value", token);
}
