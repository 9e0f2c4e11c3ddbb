/**
 * Links within the page: `<a href="#id">` opens the closed <details> around its target, and puts the focus there.
 */

/** Follows such links, and the address with which the page was opened. */
export function start() {
  document.addEventListener("click", (event) => {
    const link = event.target instanceof Element && event.target.closest('a[href^="#"]');
    if (link instanceof HTMLAnchorElement) uncover(link.hash);
  });
  uncover(location.hash);
}

/** @param {string} hash */
function uncover(hash) {
  const target = hash.length > 1 && document.getElementById(decoded(hash.slice(1)));
  if (!target) return;
  for (let around = target.closest("details"); around; around = around.parentElement?.closest("details") ?? null) {
    around.open = true;
  }
  // What cannot have the focus by itself gets it this once, so that the next key goes on from there.
  if (target.tabIndex < 0 && !target.hasAttribute("tabindex")) {
    target.tabIndex = -1;
    target.addEventListener("blur", () => target.removeAttribute("tabindex"), { once: true });
  }
  target.focus();
}

/** @param {string} text of an address; as it is where it cannot be decoded */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
