/**
 * What a mark says when it is pointed at: made of text nodes, so that names and labels that people gave stay text.
 *
 * @typedef {import("./figure.js").Point} Point
 */

/** @param {Point} point @returns {HTMLElement} */
export function tooltipOf(point) {
  const place = document.createElement("div");
  place.className = "chart-tip-content";
  const title = document.createElement("p");
  title.className = "chart-tip-title";
  title.textContent = point.title;
  const facts = document.createElement("dl");
  for (const [name, value] of point.facts) {
    const [term, figure] = [document.createElement("dt"), document.createElement("dd")];
    term.textContent = name;
    figure.textContent = value;
    facts.append(term, figure);
  }
  place.append(title, facts);
  if (point.url) {
    const hint = document.createElement("p");
    hint.className = "chart-tip-hint";
    hint.textContent = "Press to open";
    place.append(hint);
  }
  return place;
}

/** The same as one line, for screen readers. @param {Point} point */
export function sentenceOf(point) {
  const facts = point.facts.map(([name, value]) => `${name}: ${value}`).join("; ");
  return `${point.title}. ${facts}${point.url ? ". Enter opens it" : ""}`;
}
