// One function a chart: results in, figure out, or null where there is nothing to draw.

const results = JSON.parse(document.getElementById("lathe-data").textContent);
const bench = results.bench || null;
const evaluation = results.eval || null;
const timed = bench ? list(bench.subjects) : [];
const evaluated = evaluation ? list(evaluation.subjects) : [];
const recommended = results.verdict ? results.verdict.recommended || "" : "";
const styles = assignStyles([...timed, ...evaluated.filter((subject) => !timed.some((other) => other.name === subject.name))]);
const batches = bench ? [...new Set(list(bench.latency).map((row) => row.batch))].filter(isNumber).sort((a, b) => a - b) : [];
const firstBatch = results.verdict && batches.includes(results.verdict.batch) ? results.verdict.batch : batches[0];

function labelOf(name) {
  const subject = [...timed, ...evaluated].find((candidate) => candidate.name === name);
  return subject && subject.label ? subject.label : String(name);
}

function styleOf(name) {
  return styles.get(name) || { colour: "brown", shape: "circle", dash: [], engine: false };
}

function latencyOf(name, batch) {
  return bench ? list(bench.latency).find((row) => row.subject === name && row.batch === batch) : undefined;
}

// Subjects that have a row in `rows`, in the order of the benchmark.
function subjectsIn(rows) {
  const names = [...new Set(list(rows).map((row) => row.subject))];
  const order = timed.map((subject) => subject.name);
  return names.sort((a, b) => order.indexOf(a) - order.indexOf(b));
}

function barHeight(rows, perRow = 26, rest = 70) {
  return Math.max(rows * perRow + rest, 130);
}

// Bars lying on their side, one a subject: {name, value, bounds, text}.
function subjectBars(id, title, note, unit, bars, show, table) {
  if (bars.length === 0) return null;
  const span = intervalAxis(bars.map((bar) => bar.value), bars.map((bar) => bar.bounds));
  return makeFigure({
    id, title, note: note + (span.cut ? cutNote : ""), table, half: true,
    summary: bars.map((bar) => labelOf(bar.name) + " " + show(bar.value)).join(", "),
    height: () => barHeight(bars.length),
    build: (theme) => ({
      type: "bar",
      data: {
        labels: bars.map((bar) => shorten(labelOf(bar.name), 26)),
        datasets: [{
          data: bars.map((bar) => bar.value),
          backgroundColor: bars.map((bar) => theme[styleOf(bar.name).colour]),
          intervals: bars.map((bar) => bar.bounds || null),
          intervalColour: theme.text,
          valueLabels: bars.map((bar) => show(bar.value)),
          maxBarThickness: 18,
        }],
      },
      options: {
        indexAxis: "y",
        layout: { padding: { right: 62 } },
        scales: {
          x: axis(theme, unit, { beginAtZero: true, ...span.bounds, ticks: { maxTicksLimit: 6, includeBounds: false } }),
          y: axis(theme, "", { ticks: { color: theme.text, autoSkip: false }, grid: { display: false } }),
        },
        plugins: { legend: { display: false }, tooltip: tooltip((item) => show(item.raw)) },
      },
    }),
  });
}

function lineFigure(options) {
  const { id, title, note, rows, value, bounds, unit, show, logarithmic, table, summary } = options;
  const names = subjectsIn(rows);
  const sizes = [...new Set(rows.map((row) => row.batch))].sort((a, b) => a - b);
  const at = (name, batch) => rows.find((row) => row.subject === name && row.batch === batch);
  const ends = rows.flatMap((row) => (bounds && bounds(row)) || [value(row)]).filter((end) => end > 0);
  return makeFigure({
    id, title, note, table, summary,
    height: (width) => (width < 480 ? 380 : 400),
    build: (theme) => ({
      type: "line",
      data: {
        labels: sizes.map(String),
        datasets: names.map((name) => ({
          label: labelOf(name),
          data: sizes.map((batch) => (at(name, batch) ? value(at(name, batch)) : null)),
          intervals: bounds ? sizes.map((batch) => (at(name, batch) ? bounds(at(name, batch)) : null)) : null,
          spanGaps: true,
          order: name === recommended ? -1 : 0, // on top where lines lie on each other
          ...seriesStyle(theme, styleOf(name)),
        })),
      },
      options: {
        interaction: { mode: "nearest", intersect: false },
        scales: {
          x: axis(theme, "Batch size", { offset: true }),
          y: logarithmic
            ? axis(theme, unit, { type: "logarithmic", min: Math.min(...ends) * 0.75, max: Math.max(...ends) * 1.3, ticks: logTicks(theme) })
            : axis(theme, unit, { beginAtZero: true, ticks: { callback: (tick) => format.count(tick) } }),
        },
        plugins: {
          legend: legend(theme, true),
          tooltip: tooltip((item) => {
            const row = at(names[item.datasetIndex], sizes[item.dataIndex]);
            const range = bounds && row ? bounds(row) : null;
            return item.dataset.label + ": " + show(item.raw) + (range ? " (" + show(range[0]) + " to " + show(range[1]) + ")" : "");
          }),
        },
      },
    }),
  });
}

function latencyFigure() {
  const rows = bench ? list(bench.latency) : [];
  if (rows.length === 0) return null;
  const optional = [["Copy in", "copy_in_ms"], ["Copy out", "copy_out_ms"], ["Preprocessing", "preprocess_ms"]]
    .filter(([, key]) => rows.some((row) => isNumber(row[key])));
  const names = subjectsIn(rows);
  const sorted = [...rows].sort((a, b) => a.batch - b.batch || names.indexOf(a.subject) - names.indexOf(b.subject));
  const table = makeTable(
    "All latencies",
    [{ title: "Subject" }, ...["Batch", "Median", "95 % interval", "Mean", "Std", "p90", "p95", "p99", "Min", "Max", "Runs", ...optional.map(([title]) => title)].map((title) => ({ title, number: true })), { title: "Remark" }],
    sorted.map((row) => ({
      chosen: row.subject === recommended,
      cells: [
        labelOf(row.subject), format.count(row.batch), format.ms(row.median_ms), format.range(row.ci95_ms, format.msPrecise),
        ...["mean_ms", "std_ms", "p90_ms", "p95_ms", "p99_ms", "min_ms", "max_ms"].map((key) => format.ms(row[key])),
        format.count(row.count), ...optional.map(([, key]) => format.ms(row[key])),
        [row.noisy ? "did not settle" : "", row.p99_reliable === false ? "p99 from few runs" : ""].filter(Boolean).join("; "),
      ],
    })),
    { tall: true },
  );
  const bounds = (row) => pair(row.ci95_ms);
  if (batches.length === 1) {
    const note = "Median at batch " + batches[0] + " with its 95 % interval; less is better.";
    const bars = names.map((name) => latencyOf(name, batches[0])).filter(Boolean).map((row) => ({ name: row.subject, value: row.median_ms, bounds: bounds(row) }));
    return subjectBars("latency", "Latency", note, "ms", bars, format.ms, table);
  }
  return lineFigure({
    id: "latency", title: "Latency by batch size", rows, table, bounds, unit: "Median latency, ms (logarithmic)", logarithmic: true, show: format.ms,
    note: "Median with its 95 % interval; lower is better. Engines are solid lines, frameworks dashed.",
    summary: "Medians at batch " + firstBatch + ": " + names.map((name) => latencyOf(name, firstBatch)).filter(Boolean).map((row) => labelOf(row.subject) + " " + format.ms(row.median_ms)).join(", "),
    value: (row) => row.median_ms,
  });
}

function throughputFigure() {
  // Inputs that lie on the GPU are a measurement of their own, in the tables of `lathe bench`.
  const rows = bench ? list(bench.throughput).filter((row) => row.inputs !== "device") : [];
  if (rows.length === 0) return null;
  const table = makeTable(
    "Throughput",
    [{ title: "Subject" }, ...["Batch", "Samples/s", "Requests/s", "Streams", "Duration"].map((title) => ({ title, number: true }))],
    rows.map((row) => ({ chosen: row.subject === recommended, cells: [labelOf(row.subject), format.count(row.batch), format.rate(row.samples_per_second), format.rate(row.qps), format.count(row.streams), format.seconds(row.duration_s)] })),
    { tall: true },
  );
  const sizes = new Set(rows.map((row) => row.batch));
  const show = (value) => format.rate(value) + THIN + "/s";
  const note = "Samples a second under continuous load; higher is better.";
  if (sizes.size === 1) {
    return subjectBars("throughput", "Throughput at batch " + rows[0].batch, note, "Samples/s", rows.map((row) => ({ name: row.subject, value: row.samples_per_second })), show, table);
  }
  return lineFigure({
    id: "throughput", title: "Throughput by batch size", note, rows, table, unit: "Samples per second", show,
    summary: rows.map((row) => labelOf(row.subject) + " batch " + row.batch + " " + show(row.samples_per_second)).join(", "),
    value: (row) => row.samples_per_second,
  });
}

function speedupFigure() {
  const all = bench ? list(bench.ratios) : [];
  if (all.length === 0) return null;
  // Where nothing is recommended, the fastest.
  const fastest = all.reduce((best, row) => (row.speedup > best.speedup ? row : best)).subject;
  const subject = all.some((row) => row.subject === recommended) ? recommended : fastest;
  const rows = all.filter((row) => row.subject === subject);
  const references = [...new Set(rows.map((row) => row.reference))];
  const sizes = [...new Set(rows.map((row) => row.batch))].sort((a, b) => a - b);
  const at = (reference, batch) => rows.find((row) => row.reference === reference && row.batch === batch);
  const noisy = (name, batch) => Boolean((latencyOf(name, batch) || {}).noisy);
  const settled = (row) => ratioSettled(row, noisy(row.subject, row.batch) || noisy(row.reference, row.batch));
  const span = intervalAxis(rows.map((row) => row.speedup), rows.map((row) => pair(row.ci95)), (i) => settled(rows[i]));
  if (span.bounds.suggestedMax < 1) span.bounds.suggestedMax = 1;
  if (span.bounds.max < 1) span.bounds.max = 1;
  const table = makeTable(
    "Speed-up",
    [{ title: "Subject" }, { title: "Against" }, ...["Batch", "Speed-up", "95 % interval", "Pairs"].map((title) => ({ title, number: true }))],
    all.map((row) => ({ chosen: row.subject === recommended, cells: [labelOf(row.subject), labelOf(row.reference), format.count(row.batch), format.times(row.speedup), format.range(row.ci95, format.timesPrecise), format.count(row.pairs)] })),
    { tall: true },
  );
  return makeFigure({
    id: "speedup", table,
    title: "Speed-up of " + labelOf(subject),
    note: "How many times as fast as each of these, from paired runs, with 95 % intervals. The dotted line is equal speed." + (span.cut ? cutNote : "") + (span.torn ? tornNote : ""),
    summary: rows.map((row) => format.times(row.speedup) + " " + labelOf(row.reference) + " at batch " + row.batch).join(", "),
    height: () => barHeight(references.length * (sizes.length + 0.6), 19, sizes.length > 1 ? 110 : 70),
    build: (theme, width) => ({
      type: "bar",
      data: {
        labels: references.map((reference) => shorten(labelOf(reference), width < 480 ? 16 : 30)),
        datasets: sizes.map((batch, i) => ({
          label: "Batch " + batch,
          data: references.map((reference) => (at(reference, batch) ? at(reference, batch).speedup : null)),
          intervals: references.map((reference) => (at(reference, batch) ? pair(at(reference, batch).ci95) : null)),
          intervalColour: theme.text,
          valueLabels: references.map((reference) => (at(reference, batch) ? format.times(at(reference, batch).speedup) : null)),
          backgroundColor: sizes.length === 1 ? theme[styleOf(subject).colour] : theme.steps[Math.min(i, theme.steps.length - 1)],
          barPercentage: 0.86,
          categoryPercentage: 0.84,
          pointStyle: "rect",
        })),
      },
      options: {
        indexAxis: "y",
        layout: { padding: { right: span.torn ? 62 : 44 } },
        latheMarks: [{ value: 1 }],
        scales: {
          x: axis(theme, "Speed-up (×)", { beginAtZero: true, ...span.bounds, ticks: { includeBounds: false } }),
          y: axis(theme, "", { ticks: { color: theme.text, autoSkip: false }, grid: { display: false } }),
        },
        plugins: {
          legend: legend(theme, sizes.length > 1),
          tooltip: tooltip((item) => {
            const row = at(references[item.dataIndex], sizes[item.datasetIndex]);
            return item.dataset.label + ": " + format.times(item.raw) + (pair(row.ci95) ? " (" + format.range(row.ci95, format.timesPrecise) + ")" : "");
          }),
        },
      },
    }),
  });
}

function textLengthsFigure() {
  const counts = results.lengths ? list(results.lengths.histogram).filter((entry) => pair(entry) && entry.every((count) => count >= 0 && count < 1e9)) : [];
  if (counts.length === 0) return null;
  const first = Math.min(...counts.map(([length]) => length));
  const last = Math.max(...counts.map(([length]) => length));
  const width = Math.floor((last - first) / 32) + 1;
  const bins = Array.from({ length: Math.floor((last - first) / width) + 1 }, (_, i) => ({ low: first + i * width, samples: 0 }));
  for (const [length, samples] of counts) bins[Math.floor((length - first) / width)].samples += samples;
  const name = (bin) => (width === 1 ? String(bin.low) : bin.low + "–" + (bin.low + width - 1));
  const table = makeTable(
    "Samples by length",
    [{ title: "Tokens" }, { title: "Samples", number: true }],
    bins.map((bin) => [name(bin), format.count(bin.samples)]),
    { tall: true },
  );
  return makeFigure({
    id: "text-lengths", title: "Tokens a sample", table,
    note: "Samples by the number of their tokens, special ones included.",
    summary: "From " + first + " to " + last + " tokens; most often " + name(bins.reduce((most, bin) => (bin.samples > most.samples ? bin : most))) + ".",
    height: () => 260,
    build: (theme) => ({
      type: "bar",
      data: { labels: bins.map(name), datasets: [{ data: bins.map((bin) => bin.samples), backgroundColor: theme.blue, barPercentage: 1, categoryPercentage: 0.94 }] },
      options: {
        scales: {
          x: axis(theme, "Tokens", { grid: { display: false }, ticks: { maxTicksLimit: 12, maxRotation: 0 } }),
          y: axis(theme, "Samples", { beginAtZero: true, ticks: { precision: 0, callback: (tick) => format.count(tick) } }),
        },
        plugins: { legend: { display: false }, tooltip: tooltip((item) => format.count(item.raw) + " samples") },
      },
    }),
  });
}

function sizeFigure() {
  const bars = timed.filter((subject) => isNumber(subject.file_bytes) && subject.file_bytes > 0).map((subject) => ({ name: subject.name, value: subject.file_bytes / 1e6 }));
  return subjectBars("size", "Size on disk", "Of the engine or model file.", "MB", bars, (value) => format.bytes(value * 1e6));
}

function memoryFigure() {
  const bars = timed.filter((subject) => isNumber(subject.peak_rss_bytes) && subject.peak_rss_bytes > 0).map((subject) => ({ name: subject.name, value: subject.peak_rss_bytes / 1e6 }));
  return subjectBars("memory", "Peak memory", "Largest resident memory of the process while it ran.", "MB", bars, (value) => format.bytes(value * 1e6));
}

function tradeoffFigure() {
  const points = evaluated
    .map((subject) => ({ subject, row: latencyOf(subject.name, firstBatch) }))
    .filter(({ subject, row }) => row && isNumber(subject.top1));
  if (points.length < 2) return null;
  const lowest = Math.min(...points.map(({ subject }) => (pair(subject.top1_ci95) || [subject.top1])[0])) * 100;
  const highest = Math.max(...points.map(({ subject }) => (pair(subject.top1_ci95) || [0, subject.top1])[1])) * 100;
  const margin = Math.max((highest - lowest) * 0.15, 0.1);
  const span = intervalAxis(points.map(({ row }) => row.median_ms), points.map(({ row }) => pair(row.ci95_ms)));
  return makeFigure({
    id: "accuracy-speed",
    title: "Accuracy against speed",
    note: "Top-1 with its 95 % interval against median latency with its own, at batch " + firstBatch + ". Up and to the left is better." + (span.cut ? cutNote : ""),
    summary: points.map(({ subject, row }) => labelOf(subject.name) + ": top-1 " + format.percent(subject.top1) + " at " + format.ms(row.median_ms)).join(", "),
    height: (width) => (width < 480 ? 320 : 340),
    build: (theme) => ({
      type: "scatter",
      data: {
        datasets: points.map(({ subject, row }) => ({
          label: labelOf(subject.name),
          data: [{ x: row.median_ms, y: subject.top1 * 100 }],
          intervals: [pair(subject.top1_ci95) ? subject.top1_ci95.map((value) => value * 100) : null],
          intervalsAcross: [pair(row.ci95_ms)],
          valueLabels: [labelOf(subject.name)],
          ...seriesStyle(theme, styleOf(subject.name)),
          pointRadius: 6,
        })),
      },
      options: {
        layout: { padding: { right: 16 } },
        scales: {
          x: axis(theme, "Median latency, ms", { beginAtZero: true, grace: "8%", ...span.bounds, ticks: { includeBounds: false } }),
          y: axis(theme, "Top-1, %", { min: Math.max(lowest - margin, 0), max: Math.min(highest + margin, 100), ticks: { includeBounds: false, callback: (tick) => tick.toFixed(1) } }),
        },
        plugins: {
          legend: { display: false },
          tooltip: tooltip((item) => {
            const range = item.dataset.intervalsAcross[0];
            return item.dataset.label + ": " + item.raw.y.toFixed(2) + THIN + "% at " + format.ms(item.raw.x) + (range ? " (" + format.range(range, format.msPrecise) + ")" : "");
          }),
        },
      },
    }),
    table: makeTable(
      "Accuracy against speed",
      [{ title: "Engine" }, { title: "Median latency", number: true }, { title: "95 % interval", number: true }, { title: "Top-1", number: true }, { title: "95 % interval", number: true }],
      points.map(({ subject, row }) => ({ chosen: subject.name === recommended, cells: [labelOf(subject.name), format.ms(row.median_ms), format.range(row.ci95_ms, format.msPrecise), format.percent(subject.top1), format.range(subject.top1_ci95, format.percent)] })),
    ),
  });
}

const layerSubjects = results.layers ? list(results.layers.subjects).filter((subject) => subject.layers.some((layer) => isNumber(layer.ms))) : [];

function layersFigure() {
  const subject = layerSubjects.find((candidate) => candidate.name === recommended) || layerSubjects[layerSubjects.length - 1];
  if (!subject) return null;
  const layers = subject.layers.filter((layer) => isNumber(layer.ms)).sort((a, b) => b.ms - a.ms);
  const total = layers.reduce((sum, layer) => sum + layer.ms, 0);
  const shown = layers.slice(0, 20);
  const precisions = [...new Set(shown.map((layer) => String(layer.precision || "")))];
  const shownShare = shown.reduce((sum, layer) => sum + layer.ms, 0) / total;
  return makeFigure({
    id: "layers",
    title: "Time a layer, " + labelOf(subject.name),
    note: layers.length > shown.length
      ? "The " + shown.length + " slowest of " + layers.length + " layers: " + format.percent(shownShare, 0) + " of " + format.ms(total) + "."
      : layers.length + " layers, " + format.ms(total) + " together.",
    summary: shown.slice(0, 5).map((layer) => layer.name + " " + format.ms(layer.ms)).join(", "),
    height: () => barHeight(shown.length, 22, 90),
    build: (theme, width) => ({
      type: "bar",
      data: {
        labels: shown.map((layer) => shorten(layer.name, width < 480 ? 19 : 40)),
        datasets: precisions.map((precision) => ({
          label: precisionName(precision),
          data: shown.map((layer) => (String(layer.precision || "") === precision ? layer.ms : null)),
          backgroundColor: precisionColour(theme, precision),
          valueLabels: shown.map((layer) => (String(layer.precision || "") === precision ? format.ms(layer.ms) + (precisions.length > 1 ? " " + precisionName(precision) : "") : null)),
          maxBarThickness: 15,
          pointStyle: "rect",
        })),
      },
      options: {
        indexAxis: "y",
        layout: { padding: { right: precisions.length > 1 ? 92 : 58 } },
        scales: {
          x: axis(theme, "ms", { stacked: true, beginAtZero: true }),
          y: axis(theme, "", { stacked: true, ticks: { color: theme.text, autoSkip: false, font: { size: 11 } }, grid: { display: false } }),
        },
        plugins: {
          legend: legend(theme, true),
          tooltip: {
            ...tooltip((item) => format.ms(item.raw) + " (" + format.percent(item.raw / total, 1) + "), " + item.dataset.label + (shown[item.dataIndex].implementation ? ", " + shown[item.dataIndex].implementation : "")),
            filter: (item) => item.raw !== null,
          },
        },
      },
    }),
    table: makeTable(
      "Layers of " + labelOf(subject.name),
      [{ title: "Layer" }, { title: "Type" }, { title: "Precision" }, { title: "Time", number: true }, { title: "Share", number: true }, { title: "Implementation" }],
      layers.map((layer) => [layer.name, layer.type || DASH, precisionName(layer.precision), format.ms(layer.ms), format.percent(layer.ms / total, 1), layer.implementation || DASH]),
      { tall: true },
    ),
  });
}

function precisionShareFigure() {
  if (layerSubjects.length === 0) return null;
  const shares = layerSubjects.map((subject) => {
    const sums = new Map();
    let total = 0;
    for (const layer of subject.layers) {
      if (!isNumber(layer.ms)) continue;
      const precision = String(layer.precision || "");
      sums.set(precision, (sums.get(precision) || 0) + layer.ms);
      total += layer.ms;
    }
    return { subject, sums, total };
  });
  const precisions = [...new Set(shares.flatMap(({ sums }) => [...sums.keys()]))];
  const share = (entry, precision) => (entry.total > 0 ? (entry.sums.get(precision) || 0) / entry.total : 0);
  const name = (subject) => labelOf(subject.name);
  return makeFigure({
    id: "precision-share",
    title: "Time by precision",
    note: "Share of each engine’s layer time spent in each precision.",
    summary: shares.map((entry) => name(entry.subject) + ": " + precisions.map((precision) => precisionName(precision) + " " + format.percent(share(entry, precision), 0)).join(", ")).join("; "),
    height: () => barHeight(shares.length, 38, 100),
    build: (theme) => ({
      type: "bar",
      data: {
        labels: shares.map(({ subject }) => shorten(name(subject), 24)),
        datasets: precisions.map((precision) => ({
          label: precisionName(precision),
          data: shares.map((entry) => share(entry, precision) * 100),
          backgroundColor: precisionColour(theme, precision),
          borderColor: theme.paper,
          borderWidth: 1,
          valueLabels: shares.map((entry) => (share(entry, precision) > 0 ? precisionName(precision) + " " + format.percent(share(entry, precision), 0) : null)),
          labelsInside: true,
          maxBarThickness: 26,
          pointStyle: "rect",
        })),
      },
      options: {
        indexAxis: "y",
        scales: {
          x: axis(theme, "Share of time, %", { stacked: true, min: 0, max: 100 }),
          y: axis(theme, "", { stacked: true, ticks: { color: theme.text, autoSkip: false }, grid: { display: false } }),
        },
        plugins: { legend: legend(theme, true), tooltip: tooltip((item) => item.dataset.label + ": " + item.raw.toFixed(1) + THIN + "%") },
      },
    }),
    table: makeTable(
      "Time by precision",
      [{ title: "Engine" }, ...precisions.map((precision) => ({ title: precisionName(precision), number: true })), { title: "Sum of layers", number: true }],
      shares.map((entry) => [name(entry.subject), ...precisions.map((precision) => format.percent(share(entry, precision), 1)), format.ms(entry.total)]),
    ),
  });
}

function histogramFigure(tensor, index) {
  const edges = list(tensor.histogram.edges);
  const counts = list(tensor.histogram.counts);
  const most = Math.max(...counts.filter(isNumber), 1);
  // An empty bin has no place on a logarithmic axis: half a count lies below its lower end.
  const points = counts.map((count, i) => ({ x: edges[i], y: Math.max(isNumber(count) ? count : 0, 0.5) }));
  points.push({ x: edges[edges.length - 1], y: 0.5 });
  const marks = [];
  if (isNumber(tensor.low) && tensor.low > edges[0]) marks.push({ value: tensor.low, limit: true, shade: "left", side: "right", text: significant(tensor.low, 3) });
  else if (isNumber(tensor.low) && tensor.low < 0) marks.push({ value: edges[0] });
  if (isNumber(tensor.high)) {
    marks.push({ value: tensor.high, limit: true, shade: tensor.high < edges[edges.length - 1] ? "right" : null, side: "right", text: significant(tensor.high, 3) });
  }
  const facts = [isNumber(tensor.sqnr_db) ? "SQNR " + format.decibel(tensor.sqnr_db) : "", isNumber(tensor.clipped_fraction) ? format.percent(tensor.clipped_fraction) + " clipped" : ""].filter(Boolean);
  return makeFigure({
    id: "histogram-" + (index + 1),
    small: true,
    title: shorten(tensor.name, 28),
    fullTitle: tensor.name,
    note: facts.join(", "),
    summary: "Histogram of values from " + format.small(tensor.min, 3) + " to " + format.small(tensor.max, 3) + ", quantised between " + format.small(tensor.low, 3) + " and " + format.small(tensor.high, 3) + (facts.length ? ", " + facts.join(", ") : ""),
    height: () => 190,
    build: (theme) => ({
      type: "line",
      data: { datasets: [{ data: points, stepped: "before", borderColor: theme.blue, borderWidth: 1, backgroundColor: theme.blue + "55", fill: "start", pointRadius: 0, pointHitRadius: 6 }] },
      options: {
        latheMarks: marks,
        latheFontSize: 11,
        scales: {
          x: axis(theme, "", { type: "linear", min: edges[0], max: edges[edges.length - 1], ticks: { maxTicksLimit: 6, maxRotation: 0, includeBounds: false, callback: (tick) => signed(String(Number(tick.toPrecision(6)))) } }),
          y: axis(theme, "", {
            type: "logarithmic", min: 0.7, max: most * 1.6,
            ticks: {
              maxTicksLimit: 20, autoSkip: false,
              callback: (tick) => {
                const power = Math.round(Math.log10(tick));
                return Math.abs(tick - 10 ** power) < tick * 1e-6 && (power % 2 === 0 || most < 1000) ? (tick < 1000 ? String(tick) : "1e" + power) : null;
              },
            },
          }),
        },
        plugins: { legend: { display: false }, tooltip: { callbacks: { title: (items) => "from " + format.small(items[0].raw.x, 3), label: (item) => format.count(item.raw.y) + " values" } } },
      },
    }),
  });
}
