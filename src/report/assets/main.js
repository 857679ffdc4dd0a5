// Puts the page together and redraws the charts where their surroundings change.

Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
Chart.defaults.font.size = 12;

const page = document.getElementById("page");
makeSections();
const navigation = sections.length > 2
  ? el("nav", { "aria-label": "Sections" }, el("ul", {}, sections.map(({ id, title }) => el("li", {}, el("a", { href: "#" + id }, title)))))
  : null;
const footer = el("footer", {}, "Made by lathe report" + (results.report && results.report.version ? " " + results.report.version : "") + ". This file holds everything it shows and loads nothing.");
page.replaceChildren(...[header(), el("main", {}, [verdictPanel(), navigation, ...sections.map(({ element }) => element)].filter(Boolean)), footer]);
drawAll();

window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawAll());
window.addEventListener("beforeprint", () => drawAll(true));
window.addEventListener("afterprint", () => drawAll());

// Labels are cut to the width there is, so a turned phone needs them anew.
let pending = 0;
window.addEventListener("resize", () => {
  clearTimeout(pending);
  pending = setTimeout(() => {
    for (const entry of drawn) {
      if (Math.abs(entry.box.clientWidth - entry.width) > 40 && !window.matchMedia("print").matches) draw(entry, false);
    }
  }, 200);
});

// For `lathe report --png`: the pictures as text in the page, where a headless browser's dump shows them.
if (location.hash === "#export-png") {
  const pictures = drawn.map(({ spec }) => ({ id: spec.id, png: chartImage(spec) }));
  const holder = el("script", { type: "application/json", id: "lathe-export" });
  holder.textContent = JSON.stringify(pictures);
  document.body.append(holder);
}
