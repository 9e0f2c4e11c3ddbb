/**
 * A chart as a picture of its own: with its title, its note and the theme's background.
 */
import { init } from "./echarts.js";

const WIDTH = 960;
const PADDING = 20;
/** Dots of a PNG to a px, so that it is sharp in print. */
const DENSITY = 2;

/**
 * @param {(width: number) => {option: object, height: number}} draw
 * @param {string} title
 * @param {string} note
 * @param {import("./look.js").Look} look
 * @returns {{svg: string, width: number, height: number}}
 */
export function svgOf(draw, title, note, look) {
  const inner = WIDTH - 2 * PADDING;
  const { option, height } = draw(inner);
  const chart = init(null, null, { renderer: "svg", ssr: true, width: inner, height });
  chart.setOption({ ...option, tooltip: { show: false } });
  const plot = chart.renderToSVGString();
  chart.dispose();
  const head = look.size * (note ? 3.6 : 2.4);
  const whole = Math.ceil(height + head + 2 * PADDING);
  const lines = [
    `<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="${WIDTH}" height="${whole}">`,
    `<rect width="${WIDTH}" height="${whole}" fill="${look.surface}"/>`,
    line(title, PADDING + look.size, look.size * 1.25, 600, look.text, look),
    note ? line(note, PADDING + look.size * 2.5, look.size, 400, look.soft, look) : "",
    `<svg x="${PADDING}" y="${PADDING + head}" width="${inner}" height="${height}" overflow="visible">`,
    plot,
    "</svg></svg>",
  ];
  return { svg: lines.join("\n"), width: WIDTH, height: whole };
}

/** @param {{svg: string, width: number, height: number}} picture @returns {Promise<Blob>} */
export async function pngOf({ svg, width, height }) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [width * DENSITY, height * DENSITY];
  canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
  const blob = await new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
  if (!(blob instanceof Blob)) throw new Error("the picture is too large for this browser");
  return blob;
}

/** @param {string} words @param {number} y @param {number} size @param {number} weight @param {string} fill @param {import("./look.js").Look} look */
function line(words, y, size, weight, fill, look) {
  const font = `font-family="${escaped(look.font)}" font-size="${size}" font-weight="${weight}"`;
  return `<text x="${PADDING}" y="${y}" ${font} fill="${fill}">${escaped(words)}</text>`;
}

/** @param {string} words */
function escaped(words) {
  const signs = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
  return words.replace(/[&<>"]/g, (sign) => signs[/** @type {keyof typeof signs} */ (sign)]);
}
