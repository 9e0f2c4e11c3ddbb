/**
 * Figures with their intervals, by category and series: a dot with whiskers each, and a line at the reference.
 *
 * Data: `{unit, reference, categories, series: [{name, values: [{category, value, low, high, gate, fails, url}]}]}`.
 */
import { grouped } from "./grouped.js";

/** @type {(data: import("./grouped.js").Data, look: import("./look.js").Look, width: number) => import("./figure.js").Picture} */
export const intervals = (data, look, width) => grouped(data, look, width, "dots");
