/**
 * Times that say how long ago they were: `<time datetime="..." data-ago>` is brought up to date every 30 seconds.
 *
 * The words are those that the server writes. A browser whose clock is wrong counts from the server's.
 */
const SECONDS = 30;
/** @type {[number, string][]} */
const UNITS = [
  [86400, "d"],
  [3600, "h"],
  [60, "min"],
  [1, "s"],
];

/** How far the server's clock is ahead of this one, in milliseconds. */
let ahead = 0;

/** Keeps every such time of the page up to date. */
export function start() {
  setInterval(refresh, SECONDS * 1000);
  document.addEventListener("skipmap:swap", refresh);
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) refresh();
  });
}

/** @param {Response} response whose header `Date` tells the server's time */
export function noteServerTime(response) {
  const time = Date.parse(response.headers.get("Date") ?? "");
  // The header has whole seconds, and the answer took some time.
  if (!Number.isNaN(time)) ahead = Math.abs(time - Date.now()) > 5000 ? time - Date.now() : 0;
}

/**
 * A distance in words: "just now", "3 min ago", "in 2 h".
 * @param {number} seconds since then
 */
export function relative(seconds) {
  if (Math.abs(seconds) < 5) return "just now";
  const [size, unit] = UNITS.find(([each]) => Math.abs(seconds) >= each) ?? [1, "s"];
  const text = `${Math.floor(Math.abs(seconds) / size)}\u00a0${unit}`;
  return seconds > 0 ? `${text} ago` : `in ${text}`;
}

function refresh() {
  if (document.hidden) return;
  for (const element of document.querySelectorAll("time[data-ago]")) {
    const time = Date.parse(element.getAttribute("datetime") ?? "");
    if (Number.isNaN(time)) continue;
    const text = relative((Date.now() + ahead - time) / 1000);
    // Writing the same text again would take away a selection in it.
    if (element.textContent !== text) element.textContent = text;
  }
}
