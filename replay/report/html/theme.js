"use strict";

// Light or dark, as somebody chose it. The style has its dark colours behind a media query, which is answered here for
// who chose; what draws asks to be told.
const Theme = (() => {
  const KEPT = "replay-scheme", root = document.documentElement, dark = matchMedia("(prefers-color-scheme: dark)");
  const rules = [...document.styleSheets].flatMap((sheet) => [...sheet.cssRules])
    .filter((rule) => rule instanceof CSSMediaRule && rule.media.mediaText.includes("prefers-color-scheme"));
  const told = [];
  const own = () => (dark.matches ? "dark" : "light");
  let chosen = null, now = own();

  // A browser may keep nothing for a page from disk: then a choice holds until the page is left.
  function recall() {
    try { return localStorage.getItem(KEPT); } catch { return null; }
  }
  function keep() {
    try {
      if (chosen) localStorage.setItem(KEPT, chosen);
      else localStorage.removeItem(KEPT);
    } catch { /* as above */ }
  }

  function apply() {
    const before = now;
    now = chosen ?? own();
    for (const rule of rules) {
      rule.media.mediaText = chosen ? (chosen === "dark" ? "screen" : "not all") : "(prefers-color-scheme: dark)";
    }
    root.style.colorScheme = chosen ?? "";
    const other = now === "dark" ? "Light" : "Dark";
    button.textContent = other;
    button.setAttribute("aria-label", `${other} scheme`);
    if (now !== before) for (const tell of told) tell();
  }

  const button = document.createElement("button");
  button.type = "button";
  button.className = "scheme";
  button.addEventListener("click", () => {
    const wanted = now === "dark" ? "light" : "dark";
    chosen = wanted === own() ? null : wanted;
    keep();
    apply();
  });
  document.querySelector("main").prepend(button);
  dark.addEventListener("change", apply);
  const kept = recall();
  if (kept === "light" || kept === "dark") chosen = kept;
  apply();
  return { changed: (tell) => told.push(tell) };
})();
