// Which layer hurts (lathe sensitivity), and the best mix of precisions (lathe tune).

const sensitivity = results.sensitivity || null;
const tune = results.tune || null;
const sensitiveLayers = sensitivity ? list(sensitivity.layers).filter((layer) => layer.quantized) : [];
// What the search ranks by and draws its front by. In results without "ranked_by" both are mean KL.
const tuneRankedBy = tune && tune.ranked_by === "sqnr" ? "noise over signal" : "KL";
const tuneRank = (trial) => (isNumber(trial.loss) ? trial.loss : trial.mean_kl);
const tuneLoss = tune && tune.ranked_by && ["top1", "agreement"].includes(tune.metric)
  ? { name: (tune.metric === "top1" ? "top-1, smoothed" : "agreement") + ", " + (tune.drop_unit || ""), of: (trial) => trial.drop }
  : { name: tuneRankedBy === "KL" ? "mean KL, nats" : tuneRankedBy, of: tuneRank };
const builtTrials = tune ? list(tune.trials).filter((trial) => !trial.failed && isNumber(trial.speedup) && isNumber(tuneLoss.of(trial))) : [];

const metricNames = { sqnr: "noise at the output", kl: "KL divergence", agreement: "changed classes", top1: "lost right answers" };

function sensitivityLead() {
  if (!sensitivity) return null;
  return "One layer at a time in INT8, all others in FP32" + (isNumber(sensitivity.samples) ? ", on " + format.count(sensitivity.samples) + " samples" : "") + (sensitivity.target ? ", as target " + sensitivity.target + " wants it" : "") + ".";
}

function sensitivityFigure() {
  if (sensitiveLayers.length === 0) return null;
  const shown = sensitiveLayers.slice(0, 20);
  const outstanding = list(sensitivity.outstanding);
  const share = (layer) => (isNumber(layer.damage_share) ? layer.damage_share * 100 : 0);
  return makeFigure({
    id: "sensitivity",
    title: "What each layer does to the output",
    note: "Share of the damage (" + (metricNames[sensitivity.metric] || sensitivity.metric) + ") that the layers do one by one" + (sensitiveLayers.length > shown.length ? "; the " + shown.length + " worst of " + sensitiveLayers.length : "") + ". Those that stand out are grey, and named so in the table.",
    summary: shown.slice(0, 5).map((layer) => layer.node + " " + format.percent(layer.damage_share, 1)).join(", "),
    height: () => barHeight(shown.length, 22, 90),
    build: (theme, width) => ({
      type: "bar",
      data: {
        labels: shown.map((layer) => shorten(layer.node, width < 480 ? 19 : 40)),
        datasets: [{
          data: shown.map(share),
          backgroundColor: shown.map((layer) => (outstanding.includes(layer.node) ? precisionColour(theme, "fp32") : precisionColour(theme, "int8"))),
          valueLabels: shown.map((layer) => format.percent(layer.damage_share, 1)),
          maxBarThickness: 15,
        }],
      },
      options: {
        indexAxis: "y",
        layout: { padding: { right: 58 } },
        scales: {
          x: axis(theme, "Share of the damage, %", { beginAtZero: true }),
          y: axis(theme, "", { ticks: { color: theme.text, autoSkip: false, font: { size: 11 } }, grid: { display: false } }),
        },
        plugins: {
          legend: { display: false },
          tooltip: tooltip((item) => item.raw.toFixed(1) + THIN + "%, SQNR " + format.decibel(shown[item.dataIndex].sqnr_db) + ", " + (shown[item.dataIndex].role || "")),
        },
      },
    }),
  });
}

function sensitivityAdvice() {
  const advice = sensitivity ? list(sensitivity.advice) : [];
  return advice.length ? el("ul", { class: "reasons" }, advice.map((sentence) => el("li", {}, glue(sentence)))) : null;
}

function sensitivityTable() {
  if (!sensitivity || list(sensitivity.layers).length === 0) return null;
  const outstanding = list(sensitivity.outstanding);
  const numbers = (layer) => [isNumber(layer.sqnr_db) ? format.decibel(layer.sqnr_db) : layer.sqnr_db === null ? "no noise" : DASH, format.small(layer.mean_kl), format.percent(layer.agreement), format.points(layer.top1_delta)];
  const rows = sensitiveLayers.map((layer) => ({
    chosen: outstanding.includes(layer.node),
    cells: [layer.node, layer.role || DASH, ...numbers(layer), format.percent(layer.damage_share, 1), format.percent(layer.macs_share, 1), outstanding.includes(layer.node) ? "stands out" : ""],
  }));
  if (sensitivity.everything) rows.push({ cells: ["Everything in INT8", "", ...numbers(sensitivity.everything), DASH, DASH, ""] });
  for (const layer of list(sensitivity.layers)) {
    if (!layer.quantized) rows.push({ cells: [layer.node, layer.role || DASH, DASH, DASH, DASH, DASH, DASH, DASH, "stays float: " + (layer.reason || "")] });
  }
  return disclosure("Layers, most harmful first", makeTable(
    "Sensitivity",
    [{ title: "Layer" }, { title: "What it is" }, { title: "SQNR", number: true }, { title: "Mean KL", number: true }, { title: "Agreement", number: true }, { title: "Top-1 change, pt", number: true }, { title: "Damage", number: true }, { title: "Work", number: true }, { title: "Remark" }],
    rows,
    { tall: true },
  ));
}

function tuneLead() {
  if (!tune) return null;
  const limit = isNumber(tune.max_drop) ? "At most " + tune.max_drop + " " + (tune.drop_unit || "") + " of " + (tune.metric === "top1" ? "top-1" : tune.metric) + " lost" : null;
  const speed = tune.min_speedup > 0 ? "at least " + format.times(tune.min_speedup) + " FP32" : null;
  const effort = builtTrials.length + " engines built and measured" + (isNumber(tune.search_samples) ? ", each on " + format.count(tune.search_samples) + " samples" : "") + (isNumber(tune.seconds) ? ", in " + format.seconds(tune.seconds) : "");
  return [[limit, speed].filter(Boolean).join(", "), effort].filter(Boolean).join("; ") + ".";
}

function tuneFigure() {
  if (builtTrials.length < 2) return null;
  const front = builtTrials.filter((trial) => trial.pareto).sort((a, b) => a.speedup - b.speedup);
  const chosen = builtTrials.filter((trial) => trial.chosen);
  const rest = builtTrials.filter((trial) => !trial.pareto && !trial.chosen);
  // Nothing is lost by FP32 itself, and what is won is chance: shown at the lower edge of the logarithmic axis.
  const positive = builtTrials.map(tuneLoss.of).filter((loss) => loss > 0);
  if (positive.length === 0) return null;
  const floor = Math.min(...positive) / 2;
  const point = (trial) => ({ x: trial.speedup, y: Math.max(tuneLoss.of(trial), floor), name: trial.name, loss: tuneLoss.of(trial) });
  return makeFigure({
    id: "mix",
    title: "Speed against loss",
    note: "Every engine that was tried: what it loses against FP32 (" + tuneLoss.name + ") against the speed-up over it. Down and to the right is better; the line joins those that no other one beats. Engines without any loss lie on the lower edge. Of those fast enough within the limit the one of least " + tuneRankedBy + " is chosen.",
    summary: "Loss: " + tuneLoss.name + ". " + front.map((trial) => trial.name + ": " + format.times(trial.speedup) + ", loses " + format.small(tuneLoss.of(trial))).join("; "),
    height: (width) => (width < 480 ? 340 : 380),
    build: (theme) => ({
      type: "scatter",
      data: {
        datasets: [
          { label: "chosen", clip: 12, data: chosen.map(point), backgroundColor: precisionColour(theme, "int8"), borderColor: theme.text, borderWidth: 2, pointStyle: "rectRot", pointRadius: 9, valueLabels: chosen.map((trial) => trial.name) },
          { label: "Pareto front", clip: 12, data: front.map(point), showLine: true, backgroundColor: precisionColour(theme, "fp32"), borderColor: precisionColour(theme, "fp32"), pointStyle: "circle", pointRadius: 5 },
          { label: "beaten by others", clip: 12, data: rest.map(point), backgroundColor: theme.muted || theme.text, borderColor: theme.muted || theme.text, pointStyle: "crossRot", pointRadius: 5 },
        ],
      },
      options: {
        layout: { padding: { right: 24 } },
        scales: {
          x: axis(theme, "Speed-up over FP32", { grace: "8%" }),
          y: axis(theme, "Loss: " + tuneLoss.name, { type: "logarithmic", min: floor, ticks: logTicks(theme) }),
        },
        plugins: { legend: legend(theme, true), tooltip: tooltip((item) => item.raw.name + ": " + format.times(item.raw.x) + ", loses " + format.small(item.raw.loss)) },
      },
    }),
  });
}

function tuneVerdict() {
  if (!tune || !tune.text) return null;
  return el("div", {}, el("p", {}, el("strong", {}, glue(tune.text))), el("ul", { class: "reasons" }, list(tune.reasons).map((reason) => el("li", {}, glue(reason)))));
}

function tuneTable() {
  if (!tune) return null;
  const unit = tune.drop_unit || "";
  const rows = list(tune.trials).map((trial) => ({
    chosen: trial.chosen,
    cells: [trial.name, trial.phase || DASH, format.ms(trial.latency_ms), format.times(trial.speedup), isNumber(trial.drop) ? format.small(trial.drop) : DASH, format.small(tuneRank(trial)), trial.failed ? trial.failed : [trial.chosen ? "chosen" : "", trial.timed_again ? "timed again" : "", trial.pareto ? "on the front" : "", trial.feasible ? "" : "over a limit"].filter(Boolean).join(", "), list(trial.float_layers).join(", ")],
  }));
  const trials = rows.length ? disclosure("Every trial", makeTable(
    "Trials",
    [{ title: "Mix" }, { title: "Tried as" }, { title: "Latency", number: true }, { title: "Speed-up", number: true }, { title: "Loses, " + unit, number: true }, { title: "Ranked by " + tuneRankedBy, number: true }, { title: "Remark" }, { title: "Not in INT8" }],
    rows,
    { tall: true },
  )) : null;
  const layers = list(tune.layers);
  const precisions = layers.length ? disclosure("Precision of each layer", makeTable(
    "Precision of each layer",
    [{ title: "Layer" }, { title: "Precision" }, { title: (tuneRankedBy === "KL" ? "KL" : "Noise over signal") + " alone", number: true }, { title: "Gain in INT8", number: true }],
    layers.map((layer) => [layer.node, precisionName(layer.precision), format.small(layer.damage), format.ms(layer.gain_ms)]),
    { tall: true },
  )) : null;
  const timed = tune.judged ? list(tune.judged.timed) : [];
  const again = timed.length ? disclosure("The saved engine, timed again", makeTable(
    "The saved engine, timed again",
    [{ title: "In turns with" }, { title: "Latency", number: true }, { title: "The saved one is faster", number: true }, { title: "95 % interval", number: true }],
    timed.map((engine) => [engine.name, format.ms(engine.latency_ms), format.times(engine.speedup), format.range(engine.speedup_ci95, format.timesPrecise)]),
  )) : null;
  return trials || precisions || again ? el("div", {}, [trials, precisions, again].filter(Boolean)) : null;
}
