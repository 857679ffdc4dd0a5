// The page's sections, in order. A section whose results are missing is not made.

const sections = [];

function section(id, title, lead, ...content) {
  const parts = content.flat().filter(Boolean);
  if (parts.length === 0) return;
  sections.push({ id, title, element: el("section", { id, "aria-labelledby": id + "-title" }, el("div", { class: "start" }, el("h2", { id: id + "-title" }, title), lead ? el("p", { class: "lead" }, lead) : null, parts[0]), parts.slice(1)) });
}

// Figures side by side where there is room; nothing for none.
function grid(className, ...figures) {
  const shown = figures.flat().filter(Boolean);
  if (shown.length === 0) return null;
  return el("div", { class: "grid " + (shown.length > 1 ? className : "") }, shown);
}

function below(element) {
  return element ? el("div", { class: "below" }, element) : null;
}

function header() {
  const model = results.model || {};
  const input = list(model.inputs)[0];
  const facts = [
    model.file && model.file !== results.title ? model.file : null,
    isNumber(model.parameters) ? format.large(model.parameters) + " parameters" : null,
    isNumber(model.macs) ? format.large(model.macs) + " MACs" : null,
    input && input.shape ? "input " + format.shape(input.shape) : null,
    isNumber(model.opset) ? "opset " + model.opset : null,
  ].filter(Boolean);
  return el(
    "header",
    {},
    el("p", { class: "brand" }, "Lathe report" + (results.time ? " · " + String(results.time).replace("T", " ").replace("Z", " UTC") : "")),
    el("h1", {}, results.title),
    facts.length ? el("p", { class: "facts" }, facts.map((fact) => el("span", {}, fact))) : null,
  );
}

function tile(name, value, note) {
  return value && value !== DASH ? el("div", {}, el("dt", {}, name), el("dd", {}, el("span", { class: "value" }, value), note ? el("span", { class: "note" }, note) : null)) : null;
}

function verdictTiles() {
  const name = recommended;
  const subject = timed.find((candidate) => candidate.name === name);
  const baseline = timed.find((candidate) => candidate.kind === "engine" && candidate.precision === "fp32" && candidate.name !== name);
  const row = latencyOf(name, firstBatch);
  const baseRow = baseline ? latencyOf(baseline.name, firstBatch) : null;
  const framework = timed.find((candidate) => candidate.kind === "pytorch") || timed.find((candidate) => candidate.kind !== "engine");
  const ratio = (reference) => (reference && bench ? list(bench.ratios).find((entry) => entry.subject === name && entry.reference === reference.name && entry.batch === firstBatch) : null);
  const accuracy = evaluated.find((candidate) => candidate.name === name);
  const versus = accuracy ? accuracy.vs_reference : null;
  const delta = versus && isNumber(versus.top1_delta) ? format.points(versus.top1_delta) + THIN + "pt" + (pair(versus.top1_delta_ci95) ? " ±" + ((versus.top1_delta_ci95[1] - versus.top1_delta_ci95[0]) * 50).toFixed(2) : "") + " against " + labelOf(versus.reference) : null;
  const metric = (evaluation || {}).metric;
  const against = ratio(baseline) || ratio(framework);
  const tiles = [
    row ? tile("Latency at batch " + firstBatch, format.ms(row.median_ms), baseRow ? labelOf(baseline.name) + ": " + format.ms(baseRow.median_ms) : null) : null,
    against ? tile("Speed-up over " + labelOf(against.reference), format.times(against.speedup), pair(against.ci95) ? "95 % interval " + format.range(against.ci95, format.timesPrecise) : null) : null,
    ratio(framework) && ratio(framework) !== against ? tile("Speed-up over " + labelOf(framework.name), format.times(ratio(framework).speedup), pair(ratio(framework).ci95) ? "95 % interval " + format.range(ratio(framework).ci95, format.timesPrecise) : null) : null,
    accuracy && metric && isNumber(accuracy[metric.key]) ? tile(metric.name, format.percent(accuracy[metric.key]), versus && isNumber(versus[metric.key + "_delta"]) ? format.points(versus[metric.key + "_delta"]) + THIN + "pt against " + labelOf(versus.reference) : null)
      : accuracy && isNumber(accuracy.top1) ? tile("Top-1 accuracy", format.percent(accuracy.top1), delta)
      : accuracy && isNumber(accuracy.f1) ? tile("F1", format.percent(accuracy.f1), versus && isNumber(versus.f1_delta) ? format.points(versus.f1_delta) + THIN + "pt against " + labelOf(versus.reference) : null)
      : accuracy && isNumber(accuracy.spearman) ? tile("Spearman", accuracy.spearman.toFixed(4), null)
      : versus && isNumber(versus.agreement) ? tile("Agreement", format.percent(versus.agreement), "same class as " + labelOf(versus.reference)) : null,
    subject ? tile("Size on disk", format.bytes(subject.file_bytes), baseline && isNumber(baseline.file_bytes) && subject.file_bytes > 0 ? labelOf(baseline.name) + ": " + format.bytes(baseline.file_bytes) : null) : null,
  ].filter(Boolean);
  return tiles.length > 1 ? el("dl", { class: "tiles" }, tiles) : null;
}

function verdictPanel() {
  const verdict = results.verdict;
  if (!verdict || !verdict.text) return null;
  const chosen = Boolean(recommended);
  const reasons = list(verdict.reasons);
  const shown = reasons.slice(0, 4);
  const items = (sentences) => el("ul", { class: "reasons" }, sentences.map((reason) => el("li", {}, glue(reason))));
  return el(
    "div",
    { class: chosen ? "verdict chosen" : "verdict", role: "region", "aria-label": "Verdict" },
    el("p", { class: "kicker" }, chosen ? "Recommended engine: " + labelOf(recommended) : "Verdict: no recommendation"),
    el("h2", {}, glue(verdict.text)),
    chosen ? verdictTiles() : null,
    shown.length ? items(shown) : null,
    reasons.length > shown.length ? disclosure("All " + reasons.length + " reasons", items(reasons.slice(shown.length))) : null,
  );
}

// Medians as a small matrix: one row a subject, one column a batch size, the best of each column bold.
function latencyMatrix() {
  if (!bench || list(bench.latency).length === 0) return null;
  const names = subjectsIn(bench.latency);
  const best = new Map(batches.map((batch) => [batch, Math.min(...names.map((name) => (latencyOf(name, batch) ? latencyOf(name, batch).median_ms : Infinity)))]));
  return makeTable(
    "Median latency by batch size",
    [{ title: "Median latency" }, ...batches.map((batch) => ({ title: "Batch " + batch, number: true }))],
    names.map((name) => ({
      chosen: name === recommended,
      cells: [labelOf(name), ...batches.map((batch) => {
        const row = latencyOf(name, batch);
        if (!row) return DASH;
        const text = format.ms(row.median_ms);
        return el("span", {}, row.median_ms === best.get(batch) ? el("span", { class: "best" }, text) : text, row.noisy ? el("span", { class: "tag" }, " noisy") : null);
      })],
    })),
    { caption: "Fastest of each batch size in bold." },
  );
}

// What a real mix of text lengths costs each subject, by how far its requests are filled up.
function lengthMixTables() {
  const mix = bench && bench.length_mix ? bench.length_mix : {};
  const rows = list(mix.rows);
  if (rows.length === 0) return [];
  const numbers = (titles) => titles.map((title) => ({ title, number: true }));
  const best = Math.min(...rows.map((row) => row.ms_per_sample));
  const mark = (row) => (row.ms_per_sample === best ? el("span", { class: "best" }, format.ms(row.ms_per_sample)) : format.ms(row.ms_per_sample));
  const costs = makeTable(
    "Cost of a sample over the length mix",
    [{ title: "Subject" }, { title: "Filled up" }, ...numbers(["A sample", "Median", "Mean", "p90", "p99", "Whole mix", "Tokens/s", "Padding"])],
    rows.map((row) => ({ chosen: row.subject === recommended, cells: [labelOf(row.subject), row.padding, mark(row), format.ms(row.median_ms), format.ms(row.mean_ms), format.ms(row.p90_ms), format.ms(row.p99_ms), format.seconds(row.mix_ms / 1000), format.rate(row.tokens_per_second), format.percent(row.padding_share, 1)] })),
    { caption: "Latencies are those of a request. Tokens are the samples' own; padding is its share of all that are computed." },
  );
  const ratios = list(mix.ratios);
  const speedups = ratios.length ? makeTable(
    "Speed-up over the length mix",
    [{ title: "Subject" }, { title: "Filled up" }, { title: "Against" }, { title: "Filled up" }, ...numbers(["Times as fast", "95 % interval"])],
    ratios.map((row) => ({ chosen: row.subject === recommended, cells: [labelOf(row.subject), row.padding, labelOf(row.reference), row.reference_padding, format.times(row.speedup), format.range(row.ci95, format.timesPrecise)] })),
    { caption: "From turns side by side over the same samples." },
  ) : null;
  return [costs, below(speedups)];
}

function lengthMixLead() {
  const mix = bench && bench.length_mix ? bench.length_mix : null;
  if (!mix || !isNumber(mix.samples)) return null;
  const cut = isNumber(mix.cut_samples) && mix.cut_samples > 0 ? " " + format.count(mix.cut_samples) + " are cut at " + format.count(mix.limit) + ", where an engine ends." : "";
  return format.count(mix.samples) + " samples" + (mix.data ? " of " + mix.data : "") + ", " + (mix.batch > 1 ? format.count(mix.batch) : "one") + " a request" + (isNumber(mix.mean_length) ? ": " + mix.mean_length.toFixed(1) + " tokens on average, 99" + THIN + "% up to " + format.count(mix.p99_length) + ", longest " + format.count(mix.longest) : "") + "." + cut;
}

// How long a dataset's texts are, and what padding costs with each choice of lengths (lathe profile-data).
function textLengthsLead() {
  const lengths = results.lengths;
  if (!lengths) return null;
  const at = lengths.percentiles || {};
  const facts = [
    isNumber(lengths.mean) ? lengths.mean.toFixed(1) + " tokens on average" : null,
    ...["p50", "p90", "p99"].filter((key) => isNumber(at[key])).map((key) => key.slice(1) + THIN + "% up to " + format.count(at[key])),
    isNumber(lengths.longest) ? "longest " + format.count(lengths.longest) : null,
  ].filter(Boolean);
  const cut = isNumber(lengths.longer_than_limit) && lengths.longer_than_limit > 0 ? " " + format.count(lengths.longer_than_limit) + " have more than the " + format.count(lengths.limit) + " that the model takes." : "";
  return format.count(lengths.samples) + " samples" + (lengths.data ? " of " + lengths.data : "") + (facts.length ? ": " + facts.join(", ") : "") + "." + cut;
}

function textLengthsTable() {
  const lengths = results.lengths;
  if (!lengths) return null;
  const costs = [
    ...(lengths.own ? [{ ...lengths.own, name: lengths.batch > 1 ? "the batch’s longest" : "nothing" }] : []),
    ...list(lengths.proposals).map((proposal) => ({ ...proposal, name: proposal.buckets.join(", ") })),
  ];
  if (costs.length === 0) return null;
  return makeTable(
    "Lengths to fill up to",
    [{ title: "Filled up to" }, ...["Tokens computed", "Padding", "Padding over real"].map((title) => ({ title, number: true }))],
    costs.map((cost) => ({ chosen: cost.chosen === true, cells: [cost.name, format.count(cost.computed_tokens), format.percent(cost.padding_share, 1), isNumber(cost.padding_over_real) ? cost.padding_over_real.toFixed(3) : DASH] })),
    { caption: "The lengths that make the least padding, for each number of them. Marked: those that shapes were proposed for." },
  );
}

function sizeTable() {
  const rows = timed.filter((subject) => ["file_bytes", "peak_rss_bytes", "load_ms"].some((key) => isNumber(subject[key]) && subject[key] > 0));
  if (rows.length === 0) return null;
  return disclosure("Numbers", makeTable(
    "Size, memory and loading",
    [{ title: "Subject" }, { title: "File" }, { title: "Size", number: true }, { title: "Peak memory", number: true }, { title: "Load time", number: true }],
    rows.map((subject) => ({ chosen: subject.name === recommended, cells: [subject.label || subject.name, subject.file || DASH, subject.file_bytes > 0 ? format.bytes(subject.file_bytes) : DASH, subject.peak_rss_bytes > 0 ? format.bytes(subject.peak_rss_bytes) : DASH, format.ms(subject.load_ms)] })),
  ));
}

// The columns that an evaluation's task says it has; null for those of the tasks below.
function toldColumns() {
  const told = (evaluation || {}).columns;
  if (!told || typeof told !== "object") return null;
  const columns = (name, objectOf) => list(told[name]).map((column) => {
    const show = (value) => {
      if (!isNumber(value)) return column.format === "decibel" ? "equal" : DASH;
      if (column.format === "share") return format.percent(value, column.digits);
      if (column.format === "points") return format.points(value);
      if (column.format === "decibel") return format.decibel(value);
      return column.format === "count" ? format.count(value) : value.toFixed(column.digits);
    };
    return {
      title: column.title + (column.format === "points" ? ", pt" : ""),
      value: (subject) => {
        const bounds = objectOf(subject)[column.key + "_ci95"];
        const text = show(objectOf(subject)[column.key]);
        return pair(bounds) ? el("span", {}, text, el("span", { class: "sub" }, format.range(bounds, show))) : text;
      },
      present: (subject) => isNumber(objectOf(subject)[column.key]),
    };
  });
  return [...columns("subjects", (subject) => subject), ...columns("vs_reference", (subject) => subject.vs_reference || {})];
}

function accuracyTable() {
  if (evaluated.length === 0) return null;
  const versus = (subject) => subject.vs_reference || {};
  const mcnemar = (subject) => versus(subject).mcnemar || {};
  const withBounds = (text, bounds, show) => (pair(bounds) ? el("span", {}, text, el("span", { class: "sub" }, format.range(bounds, show))) : text);
  const share = (value, bounds) => withBounds(format.percent(value), bounds, (end) => (end * 100).toFixed(2));
  const part = (subject, name) => subject[name] || {};
  const change = (value) => (value > 0 ? "+" : "") + signed(value.toFixed(4));
  const isReference = (subject) => evaluated.some((other) => versus(other).reference === subject.name);
  const columns = (toldColumns() || [
    { title: "Samples", value: (s) => format.count(s.samples), present: (s) => isNumber(s.samples) && s.samples !== (evaluation.data || {}).samples },
    { title: "Top-1", value: (s) => share(s.top1, s.top1_ci95), present: (s) => isNumber(s.top1) },
    { title: "Top-5", value: (s) => share(s.top5, s.top5_ci95), present: (s) => isNumber(s.top5) },
    { title: "Top-1 change, pt", value: (s) => withBounds(format.points(versus(s).top1_delta), versus(s).top1_delta_ci95, format.points), present: (s) => isNumber(versus(s).top1_delta) },
    { title: "Exact match", value: (s) => share(s.exact, s.exact_ci95), present: (s) => isNumber(s.exact) },
    { title: "F1", value: (s) => share(s.f1, s.f1_ci95), present: (s) => isNumber(s.f1) },
    { title: "With answer: exact", value: (s) => format.percent(part(s, "has_answer").exact), present: (s) => isNumber(part(s, "has_answer").exact) },
    { title: "With answer: F1", value: (s) => format.percent(part(s, "has_answer").f1), present: (s) => isNumber(part(s, "has_answer").f1) },
    { title: "Without: right", value: (s) => format.percent(part(s, "no_answer").exact), present: (s) => isNumber(part(s, "no_answer").exact) },
    { title: "Exact change, pt", value: (s) => format.points(versus(s).exact_delta), present: (s) => isNumber(versus(s).exact_delta) },
    { title: "F1 change, pt", value: (s) => withBounds(format.points(versus(s).f1_delta), versus(s).f1_delta_ci95, format.points), present: (s) => isNumber(versus(s).f1_delta) },
    { title: "Spearman", value: (s) => (isNumber(s.spearman) ? withBounds(s.spearman.toFixed(4), s.spearman_ci95, (end) => end.toFixed(3)) : DASH), present: (s) => isNumber(s.spearman) },
    { title: "Pearson", value: (s) => (isNumber(s.pearson) ? withBounds(s.pearson.toFixed(4), s.pearson_ci95, (end) => end.toFixed(3)) : DASH), present: (s) => isNumber(s.pearson) },
    { title: "Spearman change", value: (s) => (isNumber(versus(s).spearman_delta) ? withBounds(change(versus(s).spearman_delta), versus(s).spearman_delta_ci95, change) : DASH), present: (s) => isNumber(versus(s).spearman_delta) },
    { title: "Rank agreement", value: (s) => (isNumber(versus(s).rank_agreement) ? versus(s).rank_agreement.toFixed(5) : DASH), present: (s) => isNumber(versus(s).rank_agreement) },
    { title: (evaluation || {}).task === "squad" ? "Same answer" : "Agreement", value: (s) => share(versus(s).agreement, versus(s).agreement_ci95), present: (s) => isNumber(versus(s).agreement) },
    { title: "Mean KL", value: (s) => format.small(versus(s).mean_kl), present: (s) => isNumber(versus(s).mean_kl) },
    { title: "SQNR", value: (s) => format.decibel(versus(s).sqnr_db), present: (s) => isNumber(versus(s).sqnr_db) },
    { title: "Cosine", value: (s) => (isNumber(versus(s).cosine) ? versus(s).cosine.toFixed(5) : DASH), present: (s) => isNumber(versus(s).cosine) },
    { title: "Least cosine", value: (s) => (isNumber(versus(s).least_cosine) ? versus(s).least_cosine.toFixed(5) : DASH), present: (s) => isNumber(versus(s).least_cosine) },
    { title: "Max error", value: (s) => format.small(versus(s).max_abs_error, 3), present: (s) => isNumber(versus(s).max_abs_error) },
    { title: "McNemar p", value: (s) => format.probability(mcnemar(s).p_value), present: (s) => isNumber(mcnemar(s).p_value) },
  ]).filter((column) => evaluated.some(column.present));
  if (columns.length === 0) return null;
  return makeTable(
    "Accuracy",
    [{ title: "Engine" }, ...columns.map((column) => ({ title: column.title, number: true }))],
    evaluated.map((subject) => ({ chosen: subject.name === recommended, cells: [el("span", {}, labelOf(subject.name), isReference(subject) ? el("span", { class: "sub" }, "reference") : null), ...columns.map((column) => column.value(subject))] })),
    { caption: "Small figures are 95 % intervals; changes are against the reference." },
  );
}

function significanceNotes() {
  return evaluated
    .filter((subject) => subject.vs_reference && subject.vs_reference.mcnemar && isNumber(subject.vs_reference.mcnemar.p_value))
    .map((subject) => {
      const { reference, mcnemar } = subject.vs_reference;
      const counts = isNumber(mcnemar.only_reference_right) && isNumber(mcnemar.only_subject_right)
        ? "Samples right by " + labelOf(reference) + " alone: " + format.count(mcnemar.only_reference_right) + ", by " + labelOf(subject.name) + " alone: " + format.count(mcnemar.only_subject_right) + "; "
        : labelOf(subject.name) + ": ";
      return el("li", {}, counts + (mcnemar.p_value < 0.05 ? "a significant difference" : "no significant difference") + " (McNemar’s test, p " + (mcnemar.p_value < 0.001 ? "" : "= ") + format.probability(mcnemar.p_value) + ").");
    });
}

function worstSamples() {
  if (["detection", "instances", "keypoints"].includes((evaluation || {}).task)) return worstPictures();
  return evaluated.filter((subject) => list(subject.worst).length > 0).map((subject) => disclosure(
    "Samples on which " + labelOf(subject.name) + " differs most",
    makeTable(
      "Worst samples of " + labelOf(subject.name),
      [{ title: "Sample" }, ...["KL", "Label", labelOf((subject.vs_reference || {}).reference || "reference"), labelOf(subject.name)].map((title) => ({ title, number: true }))],
      list(subject.worst).filter((row) => row && typeof row === "object").map((row) => [String(row.sample ?? DASH), format.small(row.kl), ...["label", "reference_class", "subject_class"].map((key) => (isNumber(row[key]) || typeof row[key] === "string" ? String(row[key]) : DASH))]),
    ),
  ));
}

// Of COCO's 17 points of people: between which ones lines are drawn.
const LIMBS = [[15, 13], [13, 11], [16, 14], [14, 12], [11, 12], [5, 11], [6, 12], [5, 6], [5, 7], [7, 9], [6, 8], [8, 10], [0, 1], [0, 2], [1, 3], [2, 4], [3, 5], [4, 6]];

// COCO's compressed runs over the pixels, column after column, outside and inside in turn, as lines of an SVG path: one
// down each column, a pixel wide. Nothing for text that is none.
function maskPath(mask) {
  const height = list((mask || {}).size)[0];
  if (!isNumber(height) || height < 1 || typeof mask.counts !== "string") return "";
  const runs = [];
  let value = 0, shift = 0;
  for (const letter of mask.counts) {
    const group = letter.charCodeAt(0) - 48;
    if (group < 0 || group > 63 || shift > 30) return "";
    value += (group & 31) * 2 ** shift;
    shift += 5;
    if (group & 32) continue;
    if (group & 16) value -= 2 ** shift;
    runs.push(value + (runs.length > 2 ? runs[runs.length - 2] : 0));
    value = shift = 0;
  }
  let path = "", at = 0;
  runs.forEach((run, index) => {
    for (let rest = index % 2 ? run : 0; rest > 0;) {
      const row = at % height;
      const step = Math.min(rest, height - row);
      path += "M" + ((at - row) / height + 0.5) + " " + row + "v" + step;
      at += step;
      rest -= step;
    }
    if (index % 2 === 0) at += run;
  });
  return path;
}

// One picture with what one network found: boxes, masks and points are in the picture's pixels.
function drawnPicture(row, boxes, caption) {
  const names = list((evaluation || {}).class_names);
  const { width, height, picture } = row;
  const tag = (name, attributes, text) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, String(value));
    if (text) node.textContent = text;
    return node;
  };
  const svg = tag("svg", { viewBox: "0 0 " + width + " " + height, role: "img", "aria-label": caption + ", " + row.sample });
  svg.append(tag("image", { href: picture, width, height }));
  for (const { box, score, class: index, mask, points } of list(boxes)) {
    if (!Array.isArray(box) || box.length !== 4 || !box.every(isNumber)) continue;
    const hue = (Number(index) * 137) % 360;
    const outline = maskPath(mask);
    // A little wider than a pixel, so that columns leave no gaps.
    if (outline) svg.append(tag("path", { d: outline, fill: "none", stroke: "hsl(" + hue + " 90% 45%)", "stroke-width": 1.05, "stroke-opacity": 0.5 }));
    const there = list(points).map((point) => Array.isArray(point) && point.length === 3 && point.every(isNumber) && point[2] >= 0.5);
    for (const [from, to] of there.length === 17 ? LIMBS : []) {
      if (there[from] && there[to]) svg.append(tag("line", { x1: points[from][0], y1: points[from][1], x2: points[to][0], y2: points[to][1], stroke: "hsl(55 95% 50%)", "stroke-width": width / 200 }));
    }
    there.forEach((shown, k) => {
      if (shown) svg.append(tag("circle", { cx: points[k][0], cy: points[k][1], r: width / 150, fill: "hsl(0 90% 50%)" }));
    });
    svg.append(tag("rect", { x: box[0], y: box[1], width: Math.max(0, box[2]), height: Math.max(0, box[3]), fill: "none", stroke: "hsl(" + hue + " 90% 45%)", "stroke-width": width / 200 }));
    svg.append(tag("text", { x: box[0], y: Math.max(box[1], width / 32) - width / 160, "font-size": width / 32, fill: "hsl(" + hue + " 90% 45%)" }, (names[index] || "class " + index) + " " + format.percent(score, 0)));
  }
  return el("figure", { class: "detections" }, svg, el("figcaption", {}, caption));
}

function worstPictures() {
  return evaluated.filter((subject) => list(subject.worst).length > 0).map((subject) => {
    const reference = labelOf((subject.vs_reference || {}).reference || "reference");
    const rows = list(subject.worst).filter((row) => row && typeof row === "object");
    return disclosure(
      "Pictures on which " + labelOf(subject.name) + " differs most",
      [...rows.map((row) => (typeof row.picture === "string" && isNumber(row.width) && isNumber(row.height)
        ? el("div", { class: "pair" }, drawnPicture(row, row.reference_boxes, reference), drawnPicture(row, row.subject_boxes, labelOf(subject.name)))
        : null)).filter(Boolean),
      makeTable(
        "Worst pictures of " + labelOf(subject.name),
        [{ title: "Picture" }, ...["Same " + ({ instances: "masks", keypoints: "poses" }[evaluation.task] || "detections"), reference, labelOf(subject.name)].map((title) => ({ title, number: true }))],
        rows.map((row) => [String(row.sample ?? DASH), format.percent(row.agreement), format.count(list(row.reference_boxes).length), format.count(list(row.subject_boxes).length)]),
      )],
    );
  });
}

function calibrationTable(tensors) {
  return disclosure("All " + tensors.length + " tensors", makeTable(
    "Calibrated tensors",
    [{ title: "Tensor" }, ...["Smallest", "Largest", "Low threshold", "High threshold", "Clipped", "SQNR"].map((title) => ({ title, number: true }))],
    tensors.map((tensor) => [tensor.name, ...["min", "max", "low", "high"].map((key) => format.small(tensor[key], 4)), format.percent(tensor.clipped_fraction, 3), format.decibel(tensor.sqnr_db)]),
    { tall: true },
  ));
}

// [name, quantisation] of every INT8 network; the only one has no name.
function quantisations() {
  const several = Object.entries(results.quantizations || {});
  return several.length > 1 ? several : results.quantization ? [["", results.quantization]] : [];
}

function quantisationLead(quantization, name) {
  const parts = [
    isNumber(quantization.quantized_nodes) && isNumber(quantization.total_nodes) ? format.count(quantization.quantized_nodes) + " of " + format.count(quantization.total_nodes) + " convolutions and matrix products are quantised" : null,
    quantization.target ? "for target " + quantization.target : null,
  ].filter(Boolean);
  return parts.length ? (name ? name + ": " : "") + parts.join(" ") : null;
}

function decisionsTable(quantization, name) {
  const of = name ? " of " + name : "";
  const groups = new Map();
  for (const decision of list(quantization.decisions)) {
    const reason = decision.explanation || decision.reason || "no reason recorded";
    const key = JSON.stringify([decision.quantized, reason]);
    if (!groups.has(key)) groups.set(key, { quantized: decision.quantized, reason, edges: [] });
    groups.get(key).edges.push(decision);
  }
  const sorted = [...groups.values()].sort((a, b) => Number(b.quantized) - Number(a.quantized) || b.edges.length - a.edges.length);
  if (sorted.length === 0) return null;
  return [
    makeTable(
      "Quantisation decisions by reason" + of,
      [{ title: "Reason" }, { title: "Decision" }, { title: "Edges", number: true }],
      sorted.map((group) => [words(group.reason), group.quantized ? "quantised" : "left in high precision", format.count(group.edges.length)]),
    ),
    disclosure("Every decision" + of, makeTable(
      "Every quantisation decision" + of,
      [{ title: "Node" }, { title: "Tensor" }, { title: "Decision" }, { title: "Reason" }],
      sorted.flatMap((group) => group.edges.map((edge) => [edge.node || DASH, edge.tensor || DASH, edge.quantized ? "quantised" : "not", group.reason + (edge.detail ? " (" + edge.detail + ")" : "")])),
      { tall: true },
    )),
  ];
}

const correctionNames = { "last-layers": "Last layers in float", "measured-layers": "Layers in float, measured", equalize: "Cross-layer equalisation", smooth: "SmoothQuant", ranges: "Ranges by error", "bias-correction": "Bias correction", rounding: "Weight rounding" };

// What was tried against the quantisation's errors, and what each step gained on held-back samples.
function correctionsTable(corrections, label) {
  const steps = corrections ? list(corrections.steps) : [];
  if (steps.length === 0) return null;
  const all = { method: "Together", kept: true, before: corrections.before, after: corrections.after, seconds: corrections.seconds, detail: "" };
  const metric = corrections.after && corrections.after.metric_name;
  const figure = (step, when, key) => (step[when] && isNumber(step[when][key]) ? step[when][key] : null);
  const column = (title, key, show) => ({ title, key, show: (step) => show(figure(step, "before", key)) + " → " + show(figure(step, "after", key)) });
  const change = (step) => {
    const [before, after] = ["before", "after"].map((when) => figure(step, when, "error"));
    if (before === null || after === null || before <= 0) return DASH;
    return after === before ? "0" + THIN + "%" : (after > before ? "+" : "") + format.percent(after / before - 1, 1);
  };
  const outcome = (step) => (step.kept ? "kept" : figure(step, "before", "error") === figure(step, "after", "error") ? "nothing to do" : "no gain: not kept");
  const columns = [
    { title: "Error", key: "error", show: change },
    column("Mean KL", "mean_kl", (value) => format.small(value, 2)),
    column("SQNR", "sqnr_db", format.decibel),
    column("Agreement", "agreement", (value) => format.percent(value, 1)),
    column("Task's metric", "metric", (value) => format.percent(value, 1)),
  ].filter(({ key }) => steps.some((step) => figure(step, "after", key) !== null));
  const cells = (step, name, kept) => [name, kept, ...columns.map(({ show }) => show(step)), format.seconds(step.seconds), step.detail || ""];
  return makeTable(
    label,
    [{ title: "Correction" }, { title: "Outcome" }, ...columns.map(({ title }) => ({ title, number: true })), { title: "Time", number: true }, { title: "What it did" }],
    [...steps.map((step) => cells(step, correctionNames[step.method] || words(step.method), outcome(step))), { chosen: true, cells: cells(all, all.method, "") }],
    { caption: label + ", judged on " + format.count(corrections.held_back_samples) + " samples that they did not see (they saw " + format.count(corrections.fit_samples) + "). Each starts from what was kept before it and is kept only if the mean error of the output falls" + (metric ? " and " + metric + " does not fall by more than chance." : ".") },
  );
}

function simplifyTable() {
  const simplify = results.simplify;
  const passes = simplify ? list(simplify.passes).filter((pass) => pass.changes > 0) : [];
  if (!simplify || (passes.length === 0 && !isNumber(simplify.before_nodes))) return null;
  return [
    isNumber(simplify.before_nodes) && isNumber(simplify.after_nodes)
      ? el("p", {}, format.count(simplify.before_nodes) + " nodes became " + format.count(simplify.after_nodes) + ".")
      : null,
    passes.length
      ? makeTable("Simplification passes", [{ title: "Pass" }, { title: "Changes", number: true }], passes.map((pass) => [pass.name, format.count(pass.changes)]))
      : null,
  ];
}

function stagesTable() {
  const stages = list(results.stages);
  if (stages.length === 0) return null;
  const total = stages.reduce((sum, stage) => sum + stage.seconds, 0);
  const longest = Math.max(...stages.map((stage) => stage.seconds), 1e-9);
  return makeTable(
    "Time of each stage",
    [{ title: "Stage" }, { title: "Time", number: true }, { title: "", className: "bar-cell" }],
    [...stages.map((stage) => {
      const bar = el("span", { class: "bar", "aria-hidden": "true" });
      bar.style.width = Math.max((stage.seconds / longest) * 100, 0.5) + "%";
      return [words(stage.name), format.seconds(stage.seconds), bar];
    }), [el("strong", {}, "Together"), el("strong", {}, format.seconds(total)), ""]],
  );
}

function findingsList() {
  const order = ["error", "warning", "info"];
  const marks = { error: "✖ Error", warning: "▲ Warning", info: "ℹ Note" };
  const severity = (note) => (order.includes(note.severity) ? note.severity : "info");
  const notes = [...list(results.notes)].sort((a, b) => order.indexOf(severity(a)) - order.indexOf(severity(b)));
  if (notes.length === 0) return null;
  return el("ul", { class: "findings" }, notes.map((note) => el("li", {}, el("span", { class: "severity " + severity(note) }, marks[severity(note)]), el("div", {}, el("strong", {}, words(note.name)), note.detail ? el("div", {}, note.detail) : null))));
}

// Whatever the machine's description holds, in words.
function machinePairs() {
  const machine = results.machine || {};
  const names = { cpu: "Processor", cores: "Cores used", flags: "Instructions", governor: "Frequency governor", memory_bytes: "Memory", os: "System", virtual_machine: "Virtual machine" };
  return makePairs(Object.entries(machine).map(([key, value]) => {
    const name = Object.hasOwn(names, key) ? names[key] : words(key);
    if (value === null || value === "") return [name, null];
    if (typeof value === "boolean") return [name, value ? "yes" : "no"];
    if (isNumber(value)) return [name, /bytes$/.test(key) ? format.bytes(value) : String(value)];
    if (Array.isArray(value)) return [name, value.map((item) => (typeof item === "object" ? JSON.stringify(item) : String(item))).join(", ")];
    return [name, typeof value === "object" ? JSON.stringify(value) : String(value)];
  }));
}

function provenancePairs() {
  const provenance = results.provenance || {};
  const model = results.model || {};
  const data = evaluation && evaluation.data ? evaluation.data : {};
  const own = results.report || {};
  const text = (value) => (typeof value === "string" ? value : JSON.stringify(value));
  const versions = { ...(results.libraries || {}), ...(provenance.libraries || {}) };
  const hashes = { ...(provenance.hashes || {}) };
  if (model.hash && !Object.values(hashes).includes(model.hash)) hashes.model = model.hash;
  if (data.digest && !Object.values(hashes).includes(data.digest)) hashes["evaluation data"] = data.digest;
  for (const subject of timed) {
    if (subject.hash) hashes[subject.file || subject.label || subject.name] = subject.hash;
  }
  const commands = [["Command", results.command]];
  if (bench && bench.command && bench.command !== results.command) commands.push(["Benchmark", bench.command]);
  if (evaluation && evaluation.command && evaluation.command !== results.command) commands.push(["Evaluation", evaluation.command]);
  if (own.command) commands.push(["This report", own.command]);
  return [
    makePairs([
      ...commands.map(([name, command]) => [name, mono(command)]),
      ["Lathe", provenance.lathe_version || own.version],
      ["Time", results.time],
      ["Libraries", Object.entries(versions).map(([name, version]) => name + " " + text(version)).join(", ")],
      ["Data", list(provenance.data).map(text).join(", ") || data.path],
      ["Results read", list(own.inputs).join(", ")],
    ]),
    Object.keys(hashes).length ? below(makeTable("Hashes", [{ title: "Hash of" }, { title: "XXH3, 128 bits", mono: true }], Object.entries(hashes).map(([name, hash]) => [name, text(hash)]))) : null,
  ];
}

function makeSections() {
  const calibration = results.calibration || null;
  const tensors = calibration ? list(calibration.tensors) : [];
  const data = evaluation && evaluation.data ? evaluation.data : {};
  const significance = significanceNotes();

  section("latency", "Latency", null, latencyFigure(), below(latencyMatrix()));
  section("throughput", "Throughput", null, throughputFigure());
  section("speedup", "Speed-up", null, speedupFigure());
  section("lengths", "Real length mix", lengthMixLead(), lengthMixTables());
  section("text-lengths", "Lengths of the texts", textLengthsLead(), textLengthsFigure(), below(textLengthsTable()));
  section("accuracy", "Accuracy", isNumber(data.samples) ? "Measured on " + format.count(data.samples) + " samples" + (data.path ? " of " + data.path : "") + "." : null,
    tradeoffFigure(), below(accuracyTable()), significance.length ? el("ul", { class: "reasons" }, significance) : null, worstSamples());
  section("size", "Size and memory", null, grid("two", sizeFigure(), memoryFigure()), sizeTable());
  section("layers", "Layers", "Where the time goes inside an engine.", layersFigure(), below(precisionShareFigure()));
  section("calibration", "Calibration",
    calibration ? [calibration.method ? "Method " + calibration.method : null, isNumber(calibration.samples) ? format.count(calibration.samples) + " samples" : null, isNumber(calibration.seconds) ? format.seconds(calibration.seconds) : null].filter(Boolean).join(", ") + ". Histograms of the tensors that quantise worst; dashed lines are the thresholds, values in the shaded part are clipped." : null,
    grid("three", tensors.filter((tensor) => tensor.histogram).map(histogramFigure)), tensors.length ? calibrationTable(tensors) : null);
  section("quantization", "Quantisation", quantisations().length === 1 ? quantisationLead(results.quantization, "") : null,
    ...quantisations().flatMap(([name, quantization]) => [
      name ? below(quantisationLead(quantization, name)) : null, decisionsTable(quantization, name),
      below(correctionsTable(quantization.corrections, "Corrections of " + (name || "the quantisation")))]));
  section("sensitivity", "Sensitivity", sensitivityLead(), sensitivityFigure(), below(sensitivityAdvice()), sensitivityTable());
  section("mix", "The best mix", tuneLead(), tuneFigure(), below(tuneVerdict()), below(correctionsTable(tune ? tune.corrections : null, "Corrections of INT8 before the search")), tuneTable());
  section("simplification", "Simplification", null, simplifyTable());
  section("findings", "Findings", null, findingsList());
  section("stages", "Stages", null, stagesTable());
  section("machine", "Machine", null, machinePairs());
  section("provenance", "Provenance", null, provenancePairs());
}
