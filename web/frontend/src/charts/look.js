/**
 * How a chart looks where it stands: the theme's colours (custom properties `--chart-...`), the page's font and sizes.
 *
 * @typedef {object} Look
 * @property {string} font family
 * @property {number} size of text, in px
 * @property {string} text
 * @property {string} soft text of axes and legends
 * @property {string} surface
 * @property {string} grid
 * @property {string[]} series six colours
 * @property {string} neutral
 * @property {string} negative
 * @property {string} zero
 * @property {string} positive
 * @property {string} front
 * @property {string} selected
 * @property {string} floor
 * @property {string} infeasible
 * @property {(text: string, size?: number, weight?: number) => number} widthOf width of a text in px
 */

const NAMES = {
  text: "--text",
  soft: "--chart-text",
  surface: "--surface",
  grid: "--chart-grid",
  neutral: "--chart-neutral",
  negative: "--chart-negative",
  zero: "--chart-zero",
  positive: "--chart-positive",
  front: "--chart-front",
  selected: "--chart-selected",
  floor: "--chart-floor",
  infeasible: "--chart-infeasible",
};
const SERIES = 6;
/** Text of charts, as a share of the page's own. */
const SCALE = 0.8125;

/** @type {CanvasRenderingContext2D|undefined} */
let canvas;

/** @param {HTMLElement} place @returns {Look} */
export function lookAt(place) {
  const probe = document.createElement("span");
  probe.hidden = true;
  place.append(probe);
  /** @param {string} name */
  const colour = (name) => {
    probe.style.color = "";
    probe.style.color = `var(${name})`;
    return hex(getComputedStyle(probe).color);
  };
  const colours = Object.fromEntries(Object.entries(NAMES).map(([key, name]) => [key, colour(name)]));
  const series = Array.from({ length: SERIES }, (_, index) => colour(`--chart-${index + 1}`));
  probe.remove();
  // Pictures are written with the font in an attribute that has double quotes.
  const font = getComputedStyle(place).fontFamily.replaceAll('"', "'");
  const size = Math.round(parseFloat(getComputedStyle(document.documentElement).fontSize) * SCALE);
  const widthOf = (/** @type {string} */ text, textSize = size, weight = 400) => {
    drawing().font = `${weight} ${textSize}px ${font}`;
    return Math.ceil(drawing().measureText(text).width);
  };
  return /** @type {Look} */ ({ ...colours, series, font, size, widthOf });
}

/** A colour of any notation as #rrggbb, which is what ECharts reads. @param {string} colour */
function hex(colour) {
  drawing().clearRect(0, 0, 1, 1);
  drawing().fillStyle = colour;
  drawing().fillRect(0, 0, 1, 1);
  return toHex([...drawing().getImageData(0, 0, 1, 1).data]);
}

function drawing() {
  canvas ??= document.createElement("canvas").getContext("2d", { willReadFrequently: true }) ?? undefined;
  if (!canvas) throw new Error("this browser draws on no canvas");
  return canvas;
}

/**
 * A colour between two.
 * @param {string} from
 * @param {string} to
 * @param {number} share 0 is `from`, 1 is `to`
 */
export function mix(from, to, share) {
  const [first, second] = [rgb(from), rgb(to)];
  return toHex(first.map((part, index) => Math.round(part + (second[index] - part) * share)));
}

/** @param {string} colour @param {number} opacity */
export function faint(colour, opacity) {
  return `rgba(${rgb(colour).join(",")},${opacity})`;
}

/** The one of two colours that is read better on a ground. @param {string} ground @param {string[]} inks */
export function inkOn(ground, inks) {
  const light = (/** @type {string} */ colour) => {
    const [red, green, blue] = rgb(colour).map((part) => (part / 255) ** 2.2);
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05;
  };
  const contrast = (/** @type {string} */ ink) => Math.max(light(ink) / light(ground), light(ground) / light(ink));
  return inks.reduce((best, ink) => (contrast(ink) > contrast(best) ? ink : best));
}

/** @param {string} colour #rrggbb */
function rgb(colour) {
  return [1, 3, 5].map((start) => parseInt(colour.slice(start, start + 2), 16));
}

/** @param {number[]} parts */
function toHex(parts) {
  return "#" + parts.slice(0, 3).map((part) => part.toString(16).padStart(2, "0")).join("");
}
