// What all charts share: colours, marks that tell series apart without colour, plugins, drawing, export.

// Series colours keep at least 3:1 against the page and stay apart for the common kinds of colour blindness
// (after Okabe and Ito's palette, darkened for white and lightened for black).
const themes = {
  light: {
    paper: "#ffffff", text: "#1b2229", muted: "#57626e", grid: "#e3e8ed", shade: "rgba(179, 38, 30, 0.10)", limit: "#b3261e",
    blue: "#0063a6", green: "#00805c", grey: "#59646f", orange: "#c24e00", amber: "#96690a", purple: "#9b4580", sky: "#3d8fc9", brown: "#7d5a4f",
    steps: ["#4a98d3", "#2a7dbf", "#14639d", "#0a4a77", "#063454", "#031f36"],
  },
  dark: {
    paper: "#12171c", text: "#e6ebf0", muted: "#a3afbb", grid: "#29323b", shade: "rgba(255, 157, 148, 0.14)", limit: "#ff9d94",
    blue: "#5fb0f5", green: "#45c99e", grey: "#b4bfca", orange: "#ff9455", amber: "#e3b74b", purple: "#e392c2", sky: "#a9d6f5", brown: "#cfa798",
    steps: ["#3a73a6", "#4f90c8", "#70aede", "#97c8f0", "#bfdff8", "#e2f1fd"],
  },
};
const shapes = ["circle", "rectRot", "triangle", "rect", "crossRot", "star", "rectRounded", "cross"];
const precisionColours = { fp32: "grey", bf16: "green", fp16: "purple", int8: "blue", uint8: "blue", fp8: "orange", int4: "amber" };
const frameworkColours = { pytorch: "orange", "torch-compile": "amber", onnxruntime: "purple", openvino: "sky" };
const spareColours = ["brown", "orange", "amber", "purple", "sky", "green", "blue", "grey"];

function precisionColour(theme, precision) {
  const key = String(precision || "").toLowerCase();
  return theme[Object.hasOwn(precisionColours, key) ? precisionColours[key] : "brown"];
}

// Colour, mark and dash of every subject, the same in all charts.
function assignStyles(subjects) {
  const styles = new Map();
  const used = new Set();
  subjects.forEach((subject, index) => {
    const engine = !subject.kind || subject.kind === "engine";
    const table = engine ? precisionColours : frameworkColours;
    const key = String(engine ? subject.precision : subject.kind).toLowerCase();
    let colour = Object.hasOwn(table, key) ? table[key] : null;
    if (!colour || used.has(colour)) colour = spareColours.find((name) => !used.has(name)) || spareColours[index % spareColours.length];
    used.add(colour);
    styles.set(subject.name, { colour, shape: shapes[index % shapes.length], dash: engine ? [] : [5, 4], engine });
  });
  return styles;
}

function seriesStyle(theme, style) {
  const colour = theme[style.colour];
  return {
    borderColor: colour,
    backgroundColor: colour,
    pointStyle: style.shape,
    borderDash: style.dash,
    borderWidth: style.engine ? 2.5 : 1.75,
    pointRadius: 4.5,
    pointHoverRadius: 6,
    pointBorderWidth: 2,
  };
}

// How far a linear axis goes that begins at zero, so that intervals show: to the end of the longest, but to no more than
// twice the largest value, or one noisy measurement would crowd all others at the start. Values that are not `settled`
// (a predicate of the index) do not count for that; where none is, the middle one does. `cut`: an interval runs on.
// `torn`: a value itself does.
function intervalAxis(values, intervals, settled = () => true) {
  const trusted = values.filter((value, i) => settled(i));
  const largest = trusted.length ? Math.max(...trusted) : [...values].sort((a, b) => a - b)[Math.floor((values.length - 1) / 2)];
  const most = 2 * largest;
  const torn = values.some((value) => value > most);
  const within = intervals.filter((bounds, i) => bounds && !(values[i] > most));
  const end = Math.max(...values.filter((value) => value <= most), ...within.map((bounds) => bounds[1]));
  const cut = end > most;
  return { cut, torn, bounds: cut || torn ? { max: most } : { suggestedMax: end } };
}

// Whether a ratio may set the scale of its chart: both sides settled, or at least its interval is narrow.
function ratioSettled(row, noisy) {
  const bounds = pair(row.ci95);
  return !noisy || (bounds !== null && bounds[0] > 0 && bounds[1] <= 1.5 * bounds[0]);
}

const tornNote = " A torn bar goes on beyond the frame: its figure did not settle, and sets no scale.";
const cutNote = " An arrow: the interval runs on beyond the frame, to the end given under Numbers.";

// 95 % intervals as whiskers: dataset.intervals[i] along the value axis, dataset.intervalsAcross[i] along the other. An
// end beyond the axis is an arrow at the edge in place of a cap.
const intervalPlugin = {
  id: "intervals",
  afterDatasetsDraw(chart) {
    const { ctx } = chart;
    ctx.save();
    chart.data.datasets.forEach((dataset, d) => {
      if (!chart.isDatasetVisible(d)) return;
      const meta = chart.getDatasetMeta(d);
      const sideways = chart.options.indexAxis === "y";
      meta.data.forEach((element, i) => {
        const draw = (bounds, scale, horizontal) => {
          if (!bounds || (meta.type === "bar" && dataset.data[i] > scale.max)) return; // a torn bar has no end to mark
          const ends = bounds.map((bound) => scale.getPixelForValue(Math.min(Math.max(bound, scale.min), scale.max)));
          if (!ends.every(Number.isFinite)) return;
          const cut = [bounds[0] < scale.min, bounds[1] > scale.max];
          const place = (along, across) => (horizontal ? [along, element.y + across] : [element.x + across, along]);
          const cap = 4;
          ctx.beginPath();
          ctx.moveTo(...place(ends[0], 0));
          ctx.lineTo(...place(ends[1], 0));
          ends.forEach((end, side) => {
            const inwards = cut[side] ? (horizontal === (side === 1) ? -6 : 6) : 0; // a vertical axis grows upwards
            ctx.moveTo(...place(end + inwards, -cap));
            if (cut[side]) ctx.lineTo(...place(end, 0));
            ctx.lineTo(...place(end + inwards, cap));
          });
          if (dataset.intervalColour) {
            // On a bar: with a light edge, or the half inside a dark bar would be lost.
            ctx.lineWidth = 3.5;
            ctx.strokeStyle = chart.options.latheTheme.paper;
            ctx.stroke();
          }
          ctx.lineWidth = 1.25;
          ctx.strokeStyle = dataset.intervalColour || dataset.borderColor;
          ctx.stroke();
        };
        draw(list(dataset.intervals)[i], sideways ? meta.xScale : meta.yScale, sideways);
        draw(list(dataset.intervalsAcross)[i], sideways ? meta.yScale : meta.xScale, !sideways);
      });
    });
    ctx.restore();
  },
};

// Values written at the ends of bars and beside points: dataset.valueLabels[i].
const labelPlugin = {
  id: "valueLabels",
  afterDatasetsDraw(chart) {
    const { ctx, chartArea } = chart;
    const theme = chart.options.latheTheme;
    ctx.save();
    ctx.font = `${chart.options.latheFontSize}px ${Chart.defaults.font.family}`;
    ctx.textBaseline = "middle";
    const taken = [];
    chart.data.datasets.forEach((dataset, d) => {
      if (!dataset.valueLabels || !chart.isDatasetVisible(d)) return;
      const meta = chart.getDatasetMeta(d);
      meta.data.forEach((element, i) => {
        const text = dataset.valueLabels[i];
        if (!text || !Number.isFinite(element.x) || dataset.data[i] === null) return;
        const width = ctx.measureText(text).width;
        if (dataset.labelsInside) {
          // Only where the segment has room for it; the table behind the chart has every value.
          if (width + 8 > Math.abs(element.x - element.base)) return;
          ctx.textAlign = "center";
          ctx.fillStyle = theme.paper;
          ctx.fillText(text, (element.x + element.base) / 2, element.y);
          return;
        }
        ctx.textAlign = "left";
        ctx.fillStyle = theme.text;
        const bounds = list(dataset.intervals)[i];
        if (meta.type === "bar" && meta.xScale && chart.options.indexAxis === "y" && dataset.data[i] > meta.xScale.max) {
          // Cut at the frame: two strokes of paper through it, and the figure beside it.
          ctx.strokeStyle = theme.paper;
          ctx.lineWidth = 2;
          const half = element.height / 2 + 1;
          for (const x of [chartArea.right - 14, chartArea.right - 8]) {
            ctx.beginPath();
            ctx.moveTo(x - 3, element.y + half);
            ctx.lineTo(x + 3, element.y - half);
            ctx.stroke();
          }
          ctx.fillText(text, chartArea.right + 7, element.y);
          return;
        }
        if (meta.type === "bar") {
          const end = bounds ? Math.max(element.x, meta.xScale.getPixelForValue(Math.min(bounds[1], meta.xScale.max))) : element.x;
          ctx.fillText(text, end + 7, element.y);
          return;
        }
        // Points: right of the mark, or left of it at the chart's edge, moved down past labels that lie there already.
        const left = element.x + 12 + width > chartArea.right + 4;
        const x = left ? element.x - 12 - width : element.x + 12;
        let y = element.y - 11;
        while (taken.some((box) => x < box.x + box.width && box.x < x + width && Math.abs(y - box.y) < 15)) y += 15;
        taken.push({ x, y, width });
        ctx.fillText(text, x, y);
      });
    });
    ctx.restore();
  },
};

// Lines across the chart at values of its x axis, with what lies beyond a limit shaded: options.latheMarks.
const markPlugin = {
  id: "marks",
  beforeDatasetsDraw(chart) {
    const { ctx, chartArea, scales } = chart;
    const theme = chart.options.latheTheme;
    for (const mark of list(chart.options.latheMarks)) {
      if (!mark.shade) continue;
      const x = Math.min(Math.max(scales.x.getPixelForValue(mark.value), chartArea.left), chartArea.right);
      ctx.fillStyle = theme.shade;
      if (mark.shade === "left") ctx.fillRect(chartArea.left, chartArea.top, x - chartArea.left, chartArea.height);
      else ctx.fillRect(x, chartArea.top, chartArea.right - x, chartArea.height);
    }
  },
  afterDatasetsDraw(chart) {
    const { ctx, chartArea, scales } = chart;
    const theme = chart.options.latheTheme;
    ctx.save();
    for (const mark of list(chart.options.latheMarks)) {
      const x = scales.x.getPixelForValue(mark.value);
      if (!Number.isFinite(x) || x < chartArea.left - 1 || x > chartArea.right + 1) continue;
      ctx.strokeStyle = mark.limit ? theme.limit : theme.muted;
      ctx.lineWidth = 1.5;
      ctx.setLineDash(mark.limit ? [5, 3] : [2, 3]);
      ctx.beginPath();
      ctx.moveTo(x, chartArea.top);
      ctx.lineTo(x, chartArea.bottom);
      ctx.stroke();
      if (mark.text) {
        ctx.font = `${chart.options.latheFontSize}px ${Chart.defaults.font.family}`;
        ctx.fillStyle = mark.limit ? theme.limit : theme.muted;
        const width = ctx.measureText(mark.text).width;
        const right = mark.side === "right" ? x + 5 + width <= chartArea.right : x - 5 - width < chartArea.left;
        ctx.textAlign = right ? "left" : "right";
        ctx.textBaseline = "top";
        ctx.fillText(mark.text, right ? x + 5 : x - 5, chartArea.top + 3);
      }
    }
    ctx.restore();
  },
};

const paperPlugin = {
  id: "paper",
  beforeDraw(chart) {
    const { ctx } = chart;
    ctx.save();
    ctx.fillStyle = chart.options.latheTheme.paper;
    ctx.fillRect(0, 0, chart.width, chart.height);
    ctx.restore();
  },
};

function axis(theme, title, extra = {}) {
  const { ticks, grid, ...rest } = extra;
  return {
    title: { display: Boolean(title), text: title, color: theme.muted },
    ticks: { color: theme.muted, ...ticks },
    grid: { color: theme.grid, borderColor: theme.grid, tickColor: theme.grid, ...grid },
    ...rest,
  };
}

// Ticks of a logarithmic axis at 1, 2 and 5 times the powers of ten, as plain numbers.
function logTicks(theme) {
  return {
    color: theme.muted,
    autoSkip: false,
    callback(value) {
      const lead = value / 10 ** Math.floor(Math.log10(value) + 1e-9);
      return [1, 2, 5].some((step) => Math.abs(lead - step) < 1e-6) ? String(Number(value.toPrecision(3))) : null;
    },
  };
}

function legend(theme, shown) {
  return { display: shown, position: "bottom", labels: { color: theme.text, usePointStyle: true, boxWidth: 9, padding: 14 } };
}

function tooltip(label) {
  return { callbacks: { label }, usePointStyle: true, padding: 9 };
}

const drawn = []; // {spec, canvas, box, chart}
const paperWidth = 820; // a full-width chart on paper is drawn so wide and scaled down to the page

function configure(spec, theme, width, extra) {
  const config = spec.build(theme, width);
  config.options = {
    animation: false,
    maintainAspectRatio: false,
    latheTheme: theme,
    latheFontSize: 12,
    ...config.options,
    ...extra.options,
  };
  config.options.plugins = { ...config.options.plugins, ...extra.plugins };
  config.plugins = [...list(config.plugins), intervalPlugin, labelPlugin, markPlugin, paperPlugin];
  return config;
}

function screenTheme() {
  return window.matchMedia("(prefers-color-scheme: dark)").matches ? themes.dark : themes.light;
}

function draw(entry, paper) {
  if (entry.chart) entry.chart.destroy();
  const { spec, canvas, box } = entry;
  if (paper) {
    const width = spec.small ? 300 : spec.half ? 450 : paperWidth;
    const height = spec.small ? spec.height(width) : Math.min(spec.height(width), 460);
    box.style.height = "auto";
    canvas.width = width;
    canvas.height = height;
    canvas.style.width = width + "px";
    canvas.style.height = height + "px";
    entry.chart = new Chart(canvas, configure(spec, themes.light, width, { options: { responsive: false, devicePixelRatio: 3 } }));
  } else {
    const width = box.clientWidth;
    box.style.height = spec.height(width) + "px";
    canvas.removeAttribute("style");
    entry.chart = new Chart(canvas, configure(spec, screenTheme(), width, { options: { responsive: true } }));
  }
  entry.width = box.clientWidth;
}

function drawAll(paper = false) {
  for (const entry of drawn) draw(entry, paper);
}

// The chart as a PNG of its own: on white, with its title, 1920 pixels wide.
function chartImage(spec) {
  const width = 960;
  const canvas = el("canvas", { width, height: spec.height(width) + 70 });
  const config = configure(spec, themes.light, width, {
    options: { responsive: false, devicePixelRatio: 2, layout: { padding: { top: 14, right: 22, bottom: 12, left: 14 } } },
    plugins: {
      title: { display: true, text: shorten((spec.fullTitle || spec.title) + (results.model ? ", " + results.title : ""), 100), color: themes.light.text, font: { size: 17, weight: "600" }, align: "start", padding: { bottom: spec.note ? 4 : 16 } },
      subtitle: { display: Boolean(spec.note), text: spec.note, color: themes.light.muted, font: { size: 13 }, align: "start", padding: { bottom: 14 } },
    },
  });
  const own = spec.build(themes.light, width).options.layout;
  if (own && own.padding && own.padding.right) config.options.layout.padding.right = own.padding.right + 10;
  const chart = new Chart(canvas, config);
  const url = canvas.toDataURL("image/png");
  chart.destroy();
  return url;
}

function downloadImage(spec) {
  const link = el("a", { href: chartImage(spec), download: "lathe-" + spec.id + ".png" });
  document.body.append(link);
  link.click();
  link.remove();
}

// spec: {id, title, note, summary, small, half, height(width), build(theme, width) -> Chart.js configuration, table}.
function makeFigure(spec) {
  const canvas = el("canvas", { role: "img", "aria-label": (spec.fullTitle || spec.title) + ". " + (spec.summary || spec.note || ""), id: "chart-" + spec.id });
  const box = el("div", { class: "canvas" }, canvas);
  const button = el("button", { type: "button", class: "png", "aria-label": "Download “" + spec.title + "” as PNG" }, "PNG");
  button.addEventListener("click", () => downloadImage(spec));
  const figure = el(
    "figure",
    { class: spec.small ? "small" : null },
    el("figcaption", {}, el("div", {}, el("h3", { title: spec.fullTitle }, spec.title), spec.note ? el("span", { class: "note" }, spec.note) : null), button),
    box,
    spec.table ? disclosure("Numbers", spec.table) : null,
  );
  drawn.push({ spec, canvas, box, chart: null, width: 0 });
  return figure;
}
