/**
 * The colour theme, set before the first paint: a classic script in the head, so that no page flashes.
 *
 * `<html data-theme="light|dark">` says what was chosen; without it the system decides. The choice is kept in this
 * browser under `skipmap-theme`. Buttons with `data-theme-choice="system|light|dark"` choose; the one that is on has
 * `aria-pressed="true"`. After each change the document gets the event `skipmap:theme`.
 */
(() => {
  const KEY = "skipmap-theme";
  const CHOICES = ["system", "light", "dark"];
  const root = document.documentElement;

  /** @returns {string} what was chosen in this browser */
  function kept() {
    try {
      const value = localStorage.getItem(KEY) ?? "";
      return CHOICES.includes(value) ? value : "system";
    } catch {
      return root.dataset.theme ?? "system"; // The browser keeps nothing for this site.
    }
  }

  /** @param {string} choice */
  function apply(choice) {
    if (choice === "system") delete root.dataset.theme;
    else root.dataset.theme = choice;
    for (const button of document.querySelectorAll("[data-theme-choice]")) {
      button.setAttribute("aria-pressed", String(button.getAttribute("data-theme-choice") === choice));
    }
    document.dispatchEvent(new CustomEvent("skipmap:theme"));
  }

  /** @param {string} choice */
  function choose(choice) {
    try {
      localStorage.setItem(KEY, choice);
    } catch {
      // Then the choice holds for this page alone.
    }
    apply(choice);
  }

  apply(kept());
  document.addEventListener("DOMContentLoaded", () => apply(kept()));
  document.addEventListener("click", (event) => {
    const button = event.target instanceof Element && event.target.closest("[data-theme-choice]");
    if (button) choose(button.getAttribute("data-theme-choice") ?? "system");
  });
  // Another tab chose.
  addEventListener("storage", (event) => {
    if (event.key === KEY || event.key === null) apply(kept());
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    if (!root.dataset.theme) document.dispatchEvent(new CustomEvent("skipmap:theme"));
  });
})();
