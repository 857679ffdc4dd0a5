const graph = JSON.parse(document.getElementById("lathe-data").textContent);
const canvas = document.getElementById("graph"), details = document.getElementById("details");
const colourChoice = document.getElementById("colour"), find = document.getElementById("find");
const pen = canvas.getContext("2d");

// Inputs and outputs of the network are nodes as well.
const nodes = [
  ...graph.inputs.map((value) => ({ kind: "input", name: value.name, op: "input", in: [], out: [value] })),
  ...graph.nodes.map((node) => ({ kind: "node", ...node })),
  ...graph.outputs.map((value) => ({ kind: "output", name: value.name, op: "output", in: [value], out: [] })),
];
const maker = new Map();
nodes.forEach((node, i) => node.out.forEach((value) => { if (!maker.has(value.name)) maker.set(value.name, i); }));
const edges = [];
nodes.forEach((node, i) => {
  for (const from of new Set(node.in.map((value) => maker.get(value.name)))) {
    if (from !== undefined && from < i) edges.push([from, i]);
  }
});
const { places, rows, paths } = layOut(nodes, edges);
const readers = nodes.map(() => []), sources = nodes.map(() => []);
for (const [from, to] of edges) { readers[from].push(to); sources[to].push(from); }

// Of equal lightness, so that text on them reads the same.
const PRECISIONS = { fp32: "#9ec5e8", fp16: "#a8d5a2", bf16: "#bfdc8f", tf32: "#b4c4ef", int8: "#f5b97f", int4: "#f19c9c", fp8: "#e3a8d6" };
const OTHER = "#cfd3d8";
const mostTime = Math.max(0, ...graph.nodes.map((node) => node.time_ms || 0));
const mostWork = Math.max(0, ...graph.nodes.map((node) => node.macs || 0));
function heat(share) {
  const t = Math.sqrt(share);
  const mix = (a, b) => Math.round(a + (b - a) * t);
  return `rgb(${mix(236, 232)},${mix(232, 110)},${mix(214, 70)})`;
}
const COLOURS = {
  precision: { title: "precision", of: (node) => PRECISIONS[node.precision] || OTHER },
  time: { title: "time", of: (node) => node.time_ms ? heat(node.time_ms / mostTime) : OTHER },
  work: { title: "multiply-accumulates", of: (node) => node.macs ? heat(node.macs / mostWork) : OTHER },
};
const offered = ["precision", ...(mostTime > 0 ? ["time"] : []), ...(mostWork > 0 ? ["work"] : [])];
for (const key of offered) colourChoice.append(new Option(COLOURS[key].title, key));

function count(value) {
  const units = ["", " k", " M", " G", " T"];
  let unit = 0;
  while (value >= 1000 && unit < 4) { value /= 1000; ++unit; }
  return (unit ? value.toPrecision(3) : String(value)) + units[unit];
}
const milliseconds = (value) => `${value.toPrecision(3)} ms`;

function showLegend() {
  const legend = document.getElementById("legend");
  legend.replaceChildren();
  const add = (colour, text) => {
    const entry = document.createElement("span"), patch = document.createElement("i");
    patch.style.background = colour;
    entry.append(patch, text);
    legend.append(entry);
  };
  if (colourChoice.value === "precision") {
    const seen = new Set(graph.nodes.map((node) => node.precision));
    for (const [name, colour] of Object.entries(PRECISIONS)) if (seen.has(name)) add(colour, name);
    if ([...seen].some((name) => !(name in PRECISIONS))) add(OTHER, "other types");
  } else {
    const time = colourChoice.value === "time";
    add(heat(1), time ? milliseconds(mostTime) : count(mostWork));
    add(heat(0.02), "little");
    add(OTHER, time ? "not measured" : "none");
  }
}

const view = { x: 0, y: 0, scale: 1 };
let selected = -1, waiting = false, matches = [];
const style = () => getComputedStyle(document.documentElement);
function draw() {
  waiting = false;
  const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const theme = style(), edge = theme.getPropertyValue("--edge"), ink = theme.getPropertyValue("--ink"), accent = theme.getPropertyValue("--accent");
  pen.setTransform(1, 0, 0, 1, 0, 0);
  pen.fillStyle = theme.getPropertyValue("--paper");
  pen.fillRect(0, 0, canvas.width, canvas.height);
  pen.setTransform(view.scale * ratio, 0, 0, view.scale * ratio, view.x * ratio, view.y * ratio);
  const top = -view.y / view.scale - 2 * NODE_HEIGHT, bottom = (height - view.y) / view.scale + 2 * NODE_HEIGHT;
  const left = -view.x / view.scale - NODE_WIDTH, right = (width - view.x) / view.scale + NODE_WIDTH;
  const fine = view.scale > 0.25;
  paths.forEach((path, number) => {
    if (path[0].y > bottom || path[path.length - 1].y < top) return;
    const lit = edges[number].includes(selected);
    pen.beginPath();
    pen.strokeStyle = lit ? accent : edge;
    pen.lineWidth = (lit ? 2.4 : 1.2) / Math.max(view.scale, 0.4);
    for (let k = 1; k < path.length; ++k) {
      const from = path[k - 1], to = path[k];
      if (to.y < top || from.y > bottom) continue;
      const y0 = from.y + NODE_HEIGHT / 2, y1 = to.y - NODE_HEIGHT / 2, middle = (y0 + y1) / 2;
      pen.moveTo(from.x, from.node < 0 ? from.y - NODE_HEIGHT / 2 : y0);
      if (from.node < 0) pen.lineTo(from.x, y0);
      if (fine) pen.bezierCurveTo(from.x, middle, to.x, middle, to.x, y1); else pen.lineTo(to.x, y1);
    }
    pen.stroke();
  });
  const colour = COLOURS[colourChoice.value];
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  pen.font = "12px system-ui, sans-serif";
  for (const list of rows) {
    if (!list.length || list[0].y < top || list[0].y > bottom) continue;
    for (const place of list) {
      if (place.node < 0 || place.x < left || place.x > right) continue;
      const node = nodes[place.node];
      pen.beginPath();
      pen.roundRect(place.x - NODE_WIDTH / 2, place.y - NODE_HEIGHT / 2, NODE_WIDTH, NODE_HEIGHT, node.kind === "node" ? 5 : NODE_HEIGHT / 2);
      pen.fillStyle = node.kind === "node" ? colour.of(node) : OTHER;
      pen.fill();
      if (place.node === selected || matches.includes(place.node)) {
        pen.strokeStyle = accent;
        pen.lineWidth = place.node === selected ? 3 : 1.5;
        pen.stroke();
      }
      if (!fine) continue;
      pen.fillStyle = "#1c1f23";
      const label = node.kind === "node" ? node.op : node.name;
      pen.fillText(label.length > 19 ? label.slice(0, 18) + "…" : label, place.x, place.y);
    }
  }
  pen.fillStyle = ink;
}
function redraw() {
  if (!waiting) { waiting = true; requestAnimationFrame(draw); }
}

function element(kind, text) {
  const made = document.createElement(kind);
  if (text !== undefined) made.textContent = text;
  return made;
}
function list(title, entries) {
  if (entries.length) details.append(element("h3", title), Object.assign(element("ul"), {}));
  for (const entry of entries) {
    const item = element("li");
    item.append(entry);
    details.lastChild.append(item);
  }
}
const shape = (value) => `${value.type || "?"} ${Array.isArray(value.shape) ? value.shape.map((size) => size === null ? "?" : size).join("×") || "scalar" : "?"}`;
function link(place) {
  const button = element("button", nodes[place].name || nodes[place].op);
  button.type = "button";
  button.addEventListener("click", () => { select(place); centre(place); });
  return button;
}
function select(place) {
  selected = place;
  details.replaceChildren();
  if (place < 0) {
    details.append(element("h2", graph.title), element("p", `${graph.nodes.length} nodes. Click one for its shapes, attributes and reasons; drag to move, scroll to zoom.`));
    redraw();
    return;
  }
  const node = nodes[place], facts = element("dl");
  const fact = (name, text) => facts.append(element("dt", name), element("dd", text));
  details.append(element("h2", node.name || node.op), facts);
  fact("operation", node.op);
  if (node.precision) fact("precision", node.precision);
  if (node.time_ms) fact("time", milliseconds(node.time_ms));
  if (node.macs) fact("multiply-accumulates", count(node.macs));
  if (node.parameters) fact("parameters", count(node.parameters));
  list("Reads", node.in.map((value) => `${value.name}: ${shape(value)}${maker.has(value.name) ? "" : " (constant)"}`));
  list("Gives", node.out.map((value) => `${value.name}: ${shape(value)}`));
  list("Attributes", Object.entries(node.attributes || {}).map(([name, text]) => `${name} = ${text}`));
  list("Reasons", node.reasons || []);
  list("After", sources[place].map(link));
  list("Before", readers[place].map(link));
  redraw();
}
function centre(place) {
  view.x = canvas.clientWidth / 2 - places[place].x * view.scale;
  view.y = canvas.clientHeight / 2 - places[place].y * view.scale;
  redraw();
}
function zoom(factor, x, y) {
  const scale = Math.min(3, Math.max(0.02, view.scale * factor)), grown = scale / view.scale;
  view.x = x - (x - view.x) * grown;
  view.y = y - (y - view.y) * grown;
  view.scale = scale;
  redraw();
}
function nodeAt(x, y) {
  const gx = (x - view.x) / view.scale, gy = (y - view.y) / view.scale;
  const row = rows[Math.round(gy / (NODE_HEIGHT + GAP_Y))] || [];
  const hit = row.find((place) => place.node >= 0 && Math.abs(place.x - gx) <= NODE_WIDTH / 2 && Math.abs(place.y - gy) <= NODE_HEIGHT / 2);
  return hit ? hit.node : -1;
}

let held = null;
canvas.addEventListener("pointerdown", (event) => {
  held = { x: event.offsetX, y: event.offsetY, moved: 0 };
  canvas.setPointerCapture(event.pointerId);
});
canvas.addEventListener("pointermove", (event) => {
  if (!held) return;
  const dx = event.offsetX - held.x, dy = event.offsetY - held.y;
  view.x += dx;
  view.y += dy;
  held = { x: event.offsetX, y: event.offsetY, moved: held.moved + Math.abs(dx) + Math.abs(dy) };
  redraw();
});
canvas.addEventListener("pointerup", (event) => {
  if (held && held.moved < 4) select(nodeAt(event.offsetX, event.offsetY));
  held = null;
});
canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0015)), event.offsetX, event.offsetY);
}, { passive: false });
canvas.addEventListener("keydown", (event) => {
  const near = { ArrowDown: readers, ArrowUp: sources }[event.key];
  if (event.key === "+" || event.key === "-") zoom(event.key === "+" ? 1.25 : 0.8, canvas.clientWidth / 2, canvas.clientHeight / 2);
  else if (near) { const next = selected < 0 ? 0 : near[selected][0]; if (next !== undefined) { select(next); centre(next); } }
  else if ((event.key === "ArrowLeft" || event.key === "ArrowRight") && selected >= 0) {
    const row = rows[places[selected].row].filter((place) => place.node >= 0);
    const next = row[row.findIndex((place) => place.node === selected) + (event.key === "ArrowLeft" ? -1 : 1)];
    if (next) { select(next.node); centre(next.node); }
  } else return;
  event.preventDefault();
});
find.addEventListener("input", () => {
  const wanted = find.value.trim().toLowerCase();
  matches = wanted ? nodes.flatMap((node, i) => `${node.name} ${node.op}`.toLowerCase().includes(wanted) ? [i] : []) : [];
  document.getElementById("found").textContent = wanted ? `${matches.length} found${matches.length > 1 ? "; Enter goes on" : ""}` : "";
  if (matches.length) { select(matches[0]); centre(matches[0]); } else redraw();
});
find.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || !matches.length) return;
  const next = matches[(matches.indexOf(selected) + 1) % matches.length];
  select(next);
  centre(next);
});
colourChoice.addEventListener("change", () => { showLegend(); redraw(); });
new ResizeObserver(redraw).observe(canvas);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);

showLegend();
select(-1);
if (places.length) {
  const widest = Math.max(...places.map((place) => Math.abs(place.x))) + NODE_WIDTH;
  view.scale = Math.min(1, Math.max(0.35, canvas.clientWidth / (2 * widest)));
  view.x = canvas.clientWidth / 2 - places[0].x * view.scale;
  view.y = 40 * view.scale + 20 - places.reduce((least, place) => Math.min(least, place.y), Infinity) * view.scale;
}
redraw();
