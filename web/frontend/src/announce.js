/**
 * Saying something to those who listen to the page: short texts in a hidden region of role "status" that is there from the
 * beginning, since only changes of a region are read out.
 */
const REST_MILLISECONDS = 100;

/** @type {HTMLElement|undefined} */
let region;
/** @type {string[]} */
let waiting = [];

/** Makes the region. */
export function start() {
  region = document.createElement("p");
  region.className = "visually-hidden";
  region.setAttribute("role", "status");
  region.setAttribute("data-announced", "");
  document.body.append(region);
}

/** Has a text read out, after what is said at the same moment. @param {string} text */
export function announce(text) {
  if (!region) return;
  waiting.push(text);
  if (waiting.length > 1) return;
  // Around an open dialog nothing is read. Emptied first, since the same text again would be no change.
  const place = document.querySelector("dialog[open]") ?? document.body;
  if (region.parentElement !== place) place.append(region);
  region.textContent = "";
  setTimeout(say, REST_MILLISECONDS);
}

function say() {
  if (region) region.textContent = waiting.join(" ");
  waiting = [];
}
