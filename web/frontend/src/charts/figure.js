/**
 * A chart on the page: draws its data, follows the theme, the width and new data, shows what a mark stands for by pointer
 * and by keys, and opens what it leads to.
 *
 * Keys, while the plot has the focus: arrows go from mark to mark, Page Up and Page Down by ten, Home and End to the ends,
 * Enter opens, Escape hides.
 *
 * @typedef {import("./look.js").Look} Look
 * @typedef {object} Point what a mark stands for
 * @property {string} title
 * @property {[string, string][]} facts names and values
 * @property {string|null} [url] on this site
 * @typedef {object} Picture what a kind of chart makes of data; `empty` says why there is nothing to draw
 * @property {Record<string, any>} [option] series of kind "custom", whose data items have a `point`
 * @property {number} [height] px, where the data decide it
 * @property {string} [xName] name of the lower axis
 * @property {string} [note] stands in the caption
 * @property {string} [summary] for screen readers
 * @property {string} [zoom] what a closer view shows, where there is one
 * @property {string} [empty]
 * @property {() => Rows} [rows] all that the data hold, whatever is in view
 * @typedef {import("../tables.js").Data & {part?: string}} Rows `part` tells how many of how many they are, if not all
 * @typedef {(data: any, look: Look, width: number, isNear?: boolean) => Picture} Kind
 */
import { init } from "./echarts.js";
import { pngOf, svgOf } from "./image.js";
import { walk } from "./keys.js";
import { frame } from "./legend.js";
import { open } from "./links.js";
import { lookAt } from "./look.js";
import { text } from "./marks.js";
import { tooltipOf } from "./tooltip.js";

const IMAGE_HEIGHT = 460;

/** One figure with its chart. */
export class Drawing {
  /** @param {HTMLElement} figure @param {HTMLElement} plot @param {Kind} kind */
  constructor(figure, plot, kind) {
    this.figure = figure;
    this.plot = plot;
    this.kind = kind;
    /** @type {unknown} */
    this.data = undefined;
    /** @type {import("echarts/core").EChartsType|undefined} */
    this.chart = undefined;
    /** @type {Place[]} */
    this.places = [];
    this.width = this.height = 0;
    this.note = this.zoom = "";
    this.isNear = false;
    /** The mark that a finger has touched once: the next touch opens it. @type {Point|undefined} */
    this.touched = undefined;
    this.isTouch = false;
    this.canvas = document.createElement("div");
    this.canvas.className = "chart-canvas";
    this.said = document.createElement("p");
    this.said.className = "visually-hidden";
    this.said.setAttribute("aria-live", "polite");
    plot.addEventListener("pointerdown", (event) => (this.isTouch = event.pointerType === "touch"), true);
    walk(plot, this);
    this.observer = new ResizeObserver(() => {
      const hasGrown = this.chart && plot.clientHeight !== this.height;
      if (plot.clientWidth !== this.width || hasGrown) this.draw();
    });
    this.observer.observe(plot);
  }

  /** What the chart shows, for people. */
  get title() {
    const label = this.figure.querySelector(".chart-label") ?? this.figure.querySelector("figcaption");
    return label?.textContent?.trim() ?? "Chart";
  }

  /** @param {unknown} data */
  show(data) {
    this.data = data;
    this.draw();
  }

  /** Draws again: the data, the width or the theme is another. */
  draw() {
    this.width = this.plot.clientWidth;
    if (this.data === undefined || !this.width) return;
    const look = lookAt(this.plot);
    const picture = this.kind(this.data, look, this.width, this.isNear);
    [this.note, this.zoom] = [picture.note ?? "", picture.zoom ?? ""];
    this.describe(picture);
    this.caption();
    if (!picture.option) {
      this.clear(picture.empty ?? "");
      return;
    }
    if (!this.chart) {
      this.plot.replaceChildren(this.canvas, this.said);
      this.chart = init(this.canvas, null, { renderer: "svg" });
      this.chart.on("click", (event) => this.press(event));
    }
    this.plot.style.blockSize = picture.height ? `${picture.height}px` : "";
    this.height = picture.height ?? this.plot.clientHeight;
    this.chart.resize({ width: this.width, height: this.height });
    this.chart.setOption(wholeOption(picture, look, this.width, this.height), { notMerge: true });
    this.places = placesOf(picture.option.series);
  }

  /** @param {string} message */
  clear(message) {
    this.chart?.dispose();
    this.chart = undefined;
    this.places = [];
    this.plot.style.blockSize = "";
    const line = document.createElement("p");
    line.className = "chart-wait muted";
    line.textContent = message;
    this.plot.replaceChildren(line);
  }

  /** Lets go of a figure that has left the page. */
  end() {
    this.observer.disconnect();
    this.chart?.dispose();
  }

  /** Tells screen readers what the plot is. @param {Picture} picture */
  describe({ summary, option }) {
    const { plot } = this;
    plot.removeAttribute("aria-labelledby");
    plot.setAttribute("aria-label", [this.title, summary].filter(Boolean).join(". "));
    plot.setAttribute("role", option ? "application" : "group");
    if (option) {
      plot.setAttribute("aria-roledescription", "chart");
      plot.tabIndex = 0;
    } else {
      plot.removeAttribute("aria-roledescription");
      plot.removeAttribute("tabindex");
    }
  }

  /** Says in the caption what the plot leaves out, and puts the button for a closer view there. */
  caption() {
    let place = this.figure.querySelector(".chart-note");
    if (!place && this.note) {
      place = document.createElement("span");
      place.className = "chart-note muted";
      place.setAttribute("data-added", "");
      this.figure.querySelector(".chart-label")?.after(place);
    }
    if (place && place.textContent !== this.note) place.textContent = this.note;
    let button = this.figure.querySelector(".chart-zoom");
    if (!this.zoom) button?.remove();
    if (this.zoom && !button) {
      button = zoomButton(this.zoom, () => {
        this.isNear = !this.isNear;
        this.draw();
      });
      this.figure.querySelector(".chart-tools")?.prepend(button);
    }
    button?.setAttribute("aria-pressed", String(this.isNear));
  }

  /** @param {any} event of ECharts */
  press(event) {
    const point = event.data?.point;
    const wasTouched = this.touched === point;
    this.touched = point;
    if (this.isTouch && !wasTouched) return; // The first touch shows what it is.
    open(point, event.event?.event);
  }

  /** @returns {Rows|null} */
  rows() {
    if (!this.chart) return null;
    return this.kind(this.data, lookAt(this.plot), this.width).rows?.() ?? null;
  }

  /** @param {"png"|"svg"} kind @returns {Promise<Blob|null>} */
  async image(kind) {
    if (!this.chart) return null;
    const look = lookAt(this.plot);
    const draw = (/** @type {number} */ width) => {
      const wide = this.kind(this.data, look, width, this.isNear);
      const height = wide.height ?? IMAGE_HEIGHT;
      return { option: wholeOption(wide, look, width, height), height };
    };
    const made = svgOf(draw, this.title, this.note, look);
    return kind === "png" ? pngOf(made) : new Blob([made.svg], { type: "image/svg+xml" });
  }
}

/** @param {string} label @param {() => void} press */
function zoomButton(label, press) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "button quiet small chart-zoom";
  button.setAttribute("data-added", "");
  button.textContent = "Zoom in";
  button.title = label;
  button.addEventListener("click", press);
  return button;
}

/** @typedef {{seriesIndex: number, dataIndex: number, point: Point}} Place */

/** @param {any[]} series @returns {Place[]} in the order in which keys go through them */
function placesOf(series) {
  return series.flatMap((each, seriesIndex) =>
    each.data
      .map((/** @type {any} */ item, /** @type {number} */ dataIndex) => ({ seriesIndex, dataIndex, point: item.point }))
      .filter((/** @type {Place} */ place) => place.point),
  );
}

/**
 * @param {Picture} picture
 * @param {Look} look
 * @param {number} width
 * @param {number} height
 */
function wholeOption({ option, xName }, look, width, height) {
  const name = xName ? [frame([text(xName, width - 12, height - look.size * 0.7, look, { align: "right" })])] : [];
  return {
    // A chart that is drawn again every few seconds must not move by itself.
    animation: false,
    textStyle: { fontFamily: look.font, fontSize: look.size, color: look.soft },
    tooltip: {
      trigger: "item",
      confine: true,
      transitionDuration: 0,
      className: "chart-tip",
      formatter: (/** @type {any} */ { data }) => (data?.point ? tooltipOf(data.point) : ""),
    },
    ...option,
    series: [...(option?.series ?? []), ...name].map((series) => ({ ...series, cursor: cursorOf(series) })),
  };
}

/** @param {any} series */
function cursorOf(series) {
  return series.data.some((/** @type {any} */ item) => item.point?.url) ? "pointer" : "default";
}
