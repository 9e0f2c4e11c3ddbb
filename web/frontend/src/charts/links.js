/** Where marks lead to. */

/**
 * Follows a point's address, in a new tab where the press asks for one.
 * @param {import("./figure.js").Point|undefined} point
 * @param {MouseEvent} [event]
 */
export function open(point, event) {
  if (!point?.url) return;
  const address = new URL(point.url, location.href);
  if (address.origin !== location.origin) return;
  if (event?.ctrlKey || event?.metaKey || event?.button === 1) window.open(address, "_blank", "noopener");
  else location.assign(address);
}
