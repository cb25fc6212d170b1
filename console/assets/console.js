/* Draws charts from the tables beside them. Without it, pages show the same as tables. */
"use strict";
(() => {
  const SERIES = ["received", "processed", "failed", "refused"];
  const drawn = new Map();

  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim() || "#666";
  }

  function numbers(box) {
    const from = Number(box.dataset.from), step = Number(box.dataset.step), count = Number(box.dataset.count);
    const times = Array.from({ length: count }, (_, n) => from + n * step);
    const values = SERIES.map(() => new Array(count).fill(0));
    const table = document.getElementById(box.dataset.chart);
    for (const row of table ? table.querySelectorAll("tbody tr") : []) {
      const n = Math.round((Number(row.dataset.at) - from) / step);
      row.querySelectorAll("[data-value]").forEach((cell, s) => { if (n >= 0 && n < count) values[s][n] = Number(cell.dataset.value); });
    }
    return [times, ...values];
  }

  function draw(box) {
    if (typeof uPlot === "undefined" || box.querySelector("canvas")) return;
    const table = document.getElementById(box.dataset.chart);
    const names = table ? Array.from(table.querySelectorAll("[data-series]"), (head) => head.textContent) : SERIES;
    const whole = new Intl.NumberFormat(box.dataset.language);
    const axis = { stroke: colour("soft"), grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line"), width: 1 } };
    const dashes = [[], [], [6, 3], [2, 3]];
    const plot = new uPlot({
      width: box.clientWidth, height: 220, legend: { show: false }, cursor: { show: false },
      tzDate: (at) => uPlot.tzDate(new Date(at * 1e3), "Europe/Berlin"),
      scales: { y: { range: (_, low, high) => [0, Math.max(high, 4)] } },
      axes: [
        { ...axis, values: (_, ticks) => ticks.map((at) => new Intl.DateTimeFormat(box.dataset.language, box.dataset.step === "3600" ? { weekday: "short", hour: "2-digit", minute: "2-digit", hourCycle: "h23", timeZone: "Europe/Berlin" } : { hourCycle: "h23", hour: "2-digit", minute: "2-digit", timeZone: "Europe/Berlin" }).format(at * 1e3)), space: 70 },
        { ...axis, size: 64, values: (_, ticks) => ticks.map((n) => Number.isInteger(n) ? whole.format(n) : "") },
      ],
      series: [{}, ...SERIES.map((name, n) => ({ label: names[n], stroke: colour("line-" + name), width: 2, dash: dashes[n], points: { show: false } }))],
    }, numbers(box), box);
    drawn.set(box, plot);
  }

  function begin(root) {
    for (const [box, plot] of drawn) if (!box.isConnected) { plot.destroy(); drawn.delete(box); }
    root.querySelectorAll("[data-chart]").forEach(draw);
  }

  /* A live part that is made anew keeps what somebody has unfolded, and the focus. */
  const LIVE = "#live, #tasks, #line", FOCUSABLE = "a, button, input, select, summary, [tabindex]";
  const alike = (one, other) => one.tagName === other.tagName && one.textContent === other.textContent && one.getAttribute("href") === other.getAttribute("href");
  let unfolded = [], focused = null;
  document.addEventListener("htmx:beforeSwap", () => {
    unfolded = Array.from(document.querySelectorAll("#live details"), (one) => one.open);
    const here = document.activeElement, part = here && here.closest(LIVE);
    focused = part && { part: part.id, here, place: Array.from(part.querySelectorAll(FOCUSABLE)).indexOf(here) };
  });
  document.addEventListener("htmx:afterSwap", () => {
    const part = focused && document.getElementById(focused.part);
    if (part && !focused.here.isConnected) {
      const places = Array.from(part.querySelectorAll(FOCUSABLE));
      (places.find((one) => alike(one, focused.here)) || places[focused.place] || part).focus({ preventScroll: true });
    }
  });
  document.addEventListener("htmx:afterSettle", () => {
    document.querySelectorAll("#live details").forEach((one, n) => { if (unfolded[n] !== undefined) one.open = unfolded[n]; });
    begin(document);
  });
  addEventListener("resize", () => drawn.forEach((plot, box) => plot.setSize({ width: box.clientWidth, height: 220 })));
  begin(document);
})();
