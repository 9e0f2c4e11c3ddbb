/**
 * Starts what the pages' attributes ask for; each module says at its head which those are.
 *
 * Pages work without scripts. Charts are a module of their own, which only pages with a chart fetch.
 */
import * as ago from "./ago.js";
import * as anchors from "./anchors.js";
import * as announce from "./announce.js";
import * as autosubmit from "./autosubmit.js";
import * as copy from "./copy.js";
import * as dialog from "./dialog.js";
import * as errors from "./errors.js";
import * as exports from "./exports.js";
import * as live from "./live.js";
import * as menu from "./menu.js";
import * as refresh from "./refresh.js";
import * as rows from "./rows.js";
import * as session from "./session.js";
import * as showfor from "./showfor.js";
import * as submits from "./submits.js";
import * as toasts from "./toasts.js";
import * as typed from "./typed.js";
import * as upload from "./upload.js";

// What sends a form in its own way comes before what watches all forms, and what fills forms in after what follows them.
const parts = [
  announce,
  ago,
  anchors,
  autosubmit,
  copy,
  dialog,
  errors,
  exports,
  live,
  menu,
  refresh,
  rows,
  session,
  showfor,
  toasts,
  upload,
  submits,
  typed,
];
for (const part of parts) {
  try {
    part.start();
  } catch (error) {
    reportError(error); // The others do without it.
  }
}

/** @param {ParentNode} place */
async function drawCharts(place) {
  if (!place.querySelector("[data-chart]")) return;
  let charts;
  try {
    charts = await import("./charts.js");
  } catch {
    toasts.toast("warning", "The charts cannot be drawn: the server cannot be reached, or it has a newer release now.", {
      link: { label: "Open the page again", href: location.href },
    });
    return;
  }
  charts.drawAll(place);
}

document.addEventListener("skipmap:swap", ({ target }) => {
  if (target instanceof Element) void drawCharts(target);
});
void drawCharts(document);
