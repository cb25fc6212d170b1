/* Charts from the tables beside them, live parts, shortcuts. Without it, pages show the same and stay as they are. */
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
    const moment = new Intl.DateTimeFormat(box.dataset.language, { dateStyle: "medium", timeStyle: "short", timeZone: "Europe/Berlin" });
    const fromZero = (_, low, high) => [0, Math.max(high, 4)];
    const dashes = [[], [], [6, 3], [2, 3]];
    const plot = new uPlot({
      width: box.clientWidth, height: 220, cursor: { drag: { x: false, y: false } }, legend: { markers: { show: false } },
      tzDate: (at) => uPlot.tzDate(new Date(at * 1e3), "Europe/Berlin"),
      scales: { y: { range: fromZero }, failures: { range: fromZero } },
      axes: [
        { ...axis, values: (_, ticks) => ticks.map((at) => new Intl.DateTimeFormat(box.dataset.language, box.dataset.step === "3600" ? { weekday: "short", hour: "2-digit", minute: "2-digit", hourCycle: "h23", timeZone: "Europe/Berlin" } : { hourCycle: "h23", hour: "2-digit", minute: "2-digit", timeZone: "Europe/Berlin" }).format(at * 1e3)), space: 70 },
        { ...axis, size: 64, values: (_, ticks) => ticks.map((n) => Number.isInteger(n) ? whole.format(n) : "") },
        { ...axis, scale: "failures", side: 1, size: 48, grid: { show: false }, values: (_, ticks) => ticks.map((n) => Number.isInteger(n) ? whole.format(n) : "") },
      ],
      series: [{ label: box.dataset.time, value: (_, at) => at ? moment.format(at * 1e3) : "" }, ...SERIES.map((name, n) => ({ label: names[n], scale: n < 2 ? "y" : "failures", value: (_, number) => number === null ? "" : whole.format(number), stroke: colour("line-" + name), width: 2, dash: dashes[n], points: { show: false } }))],
    }, numbers(box), box);
    plot.over.addEventListener("click", () => document.querySelector(`#${box.dataset.chart} [data-at="${plot.data[0][plot.cursor.idx]}"] a`)?.click());
    drawn.set(box, plot);
  }

  function begin() {
    for (const [box, plot] of drawn) if (!box.isConnected) { plot.destroy(); drawn.delete(box); }
    document.querySelectorAll("[data-chart]").forEach((box) => drawn.has(box) ? drawn.get(box).setData(numbers(box)) : draw(box));
  }

  /* A live part is changed in place: what has the focus, is selected, typed or unfolded stays. Elements with an id keep
     their content when others are added before them. */
  const OWN = { DETAILS: ["open"], INPUT: ["value", "checked"], TEXTAREA: ["value"] };
  function isOwn(node, name) { return node.type !== "hidden" && (OWN[node.nodeName] || []).includes(name); }
  function alike(node, other) { return node && node.nodeName === other.nodeName && (node.id || "") === (other.id || ""); }

  function morph(old, fresh) {
    if (old.isEqualNode(fresh)) return;
    if (old.nodeType !== Node.ELEMENT_NODE) { old.nodeValue = fresh.nodeValue; return; }
    for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name) && !isOwn(old, name)) old.removeAttribute(name);
    for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value && !isOwn(old, name)) old.setAttribute(name, value);
    if (old.matches("[data-chart], textarea")) return;
    let place = old.firstChild;
    for (const child of [...fresh.childNodes]) {
      const known = child.id ? [...old.children].find((other) => alike(other, child)) : place;
      while (known && place && known !== place && !fresh.querySelector(`#${CSS.escape(place.id || "none")}`)) place = gone(place);
      if (!alike(known, child)) old.insertBefore(child, place);
      else {
        if (known === place) place = place.nextSibling; else old.insertBefore(known, place);
        morph(known, child);
      }
    }
    while (place) place = gone(place);
  }
  function gone(node) { const next = node.nextSibling; node.remove(); return next; }

  if (typeof htmx !== "undefined") htmx.defineExtension("morph", {
    isInlineSwap: (style) => style === "morph",
    handleSwap: (style, target, fragment) => {
      if (style !== "morph") return false;
      const focused = document.activeElement;
      morph(target, fragment.firstElementChild);
      if (focused.isConnected && focused !== document.activeElement) focused.focus({ preventScroll: true });
      return [target];
    },
  });
  document.addEventListener("htmx:afterSettle", begin);

  /* At the end of a live part, the whole page is reloaded, unless somebody types on it. */
  function isTyping() {
    const fields = [...document.querySelectorAll("input:not([type=hidden], [type=checkbox], [type=radio]), textarea")];
    return fields.some((field) => field.value !== field.defaultValue);
  }
  document.addEventListener("htmx:beforeOnLoad", (event) => {
    const { xhr, target } = event.detail;
    if (xhr.getResponseHeader("HX-Refresh") !== "true" || !isTyping()) return;
    event.preventDefault();
    const page = new DOMParser().parseFromString(xhr.responseText, "text/html");
    morph(target, page.getElementById(target.id));
  });

  /* Live parts can be paused. */
  const live = document.getElementById("live-switch");
  if (live && document.querySelector("[hx-trigger^=every]")) live.hidden = false;
  document.addEventListener("htmx:beforeRequest", (event) => { if (live && !live.firstChild.checked) event.preventDefault(); });

  /* Keyboard shortcuts: the page behind `?` lists them. */
  const help = document.body.dataset.shortcuts;
  let isGoing = false;
  if (help) document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.target.closest("input, textarea, select")) return;
    const entry = isGoing ? document.querySelectorAll(".main-nav a")[Number(event.key) - 1] : null;
    isGoing = event.key === "g";
    if (entry) entry.click();
    else if (event.key === "?") location.assign(help);
    else if (event.key === "/") { event.preventDefault(); document.getElementById("q").select(); }
  });

  /* Buttons that copy a text. Without script it can be selected. */
  document.documentElement.classList.add("scripted");
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-copy]");
    if (button) navigator.clipboard.writeText(document.getElementById(button.dataset.copy).value).then(() => { button.textContent = button.dataset.done; });
  });

  /* Files are uploaded in pieces, with progress, and go on after an interruption. Without script, the form sends them. */
  const PIECE = 8 * 2 ** 20, TRIES = 5;
  const uploading = document.querySelector("[data-upload]");
  if (uploading) uploading.addEventListener("submit", async (event) => {
    event.preventDefault();
    const { file: field, csrf } = uploading.elements, files = [...field.files], button = uploading.querySelector("button");
    const bar = uploading.querySelector("progress"), says = uploading.querySelector("[role=status]");
    const total = files.reduce((sum, file) => sum + file.size, 0) || 1;
    async function put(file, offset, body) {
      const address = `${uploading.dataset.upload}${encodeURIComponent(file.name)}/?size=${file.size}&version=${file.lastModified}&offset=${offset}`;
      const answer = await fetch(address, { method: "PUT", headers: { "X-Form-Token": csrf.value }, body });
      if (answer.redirected) throw new Error(uploading.dataset.ended);
      if (answer.ok || answer.status === 409) return (await answer.json()).received;
      const page = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("main p");
      throw new Error(page ? page.textContent.trim() : answer.statusText);
    }
    button.disabled = true;
    bar.hidden = false;
    let sent = 0;
    try {
      for (const file of files) {
        let at = await put(file, 0), left = TRIES;
        while (at < file.size) {
          try {
            at = await put(file, at, file.slice(at, at + PIECE));
            left = TRIES;
          } catch (error) {
            if (!(error instanceof TypeError) || !left--) throw error;
            await new Promise((done) => setTimeout(done, 1000));
            at = await put(file, 0).catch(() => at);
          }
          bar.value = (sent + at) / total;
          says.textContent = `${file.name}: ${Math.floor(100 * at / file.size)} %`;
        }
        sent += file.size;
      }
      location.reload();
    } catch (error) {
      says.textContent = error instanceof TypeError ? uploading.dataset.cut : error.message;
      button.disabled = false;
    }
  });

  addEventListener("resize", () => drawn.forEach((plot, box) => plot.setSize({ width: box.clientWidth, height: 220 })));
  begin();
})();
