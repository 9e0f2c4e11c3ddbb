/**
 * Figures by category and series as bars from zero, with whiskers where intervals are given, and a line at the reference.
 *
 * Data: `{unit, reference, categories, series: [{name, values: [{category, value, low, high, url}]}]}`.
 */
import { grouped } from "./grouped.js";

/** @type {(data: import("./grouped.js").Data, look: import("./look.js").Look, width: number) => import("./figure.js").Picture} */
export const bars = (data, look, width) => grouped(data, look, width, "bars");
