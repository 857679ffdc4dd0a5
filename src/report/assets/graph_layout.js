// Layers from the top down, after Sugiyama, Tagawa and Toda (1981): each node one below the lowest that it reads; long edges
// go through empty places; rows are ordered by the mean place of the neighbours; then nodes move over them.
const NODE_WIDTH = 132, NODE_HEIGHT = 30, GAP_X = 22, GAP_Y = 34, BEND_WIDTH = 10, SWEEPS = 8;

function layOut(nodes, edges) {
  const count = nodes.length;
  const above = nodes.map(() => []), below = nodes.map(() => []);
  for (const [from, to] of edges) { below[from].push(to); above[to].push(from); }
  // Nodes are in topological order.
  const row = new Array(count).fill(0);
  for (let i = 0; i < count; ++i) for (const j of above[i]) row[i] = Math.max(row[i], row[j] + 1);
  // Inputs, and what is computed from constants alone, stand right over their first reader, not at the top.
  const fed = new Array(count).fill(false);
  for (let i = 0; i < count; ++i) fed[i] = above[i].some((j) => fed[j] || nodes[j].kind === "input");
  for (let i = count - 1; i >= 0; --i) {
    if (!fed[i] && below[i].length > 0) row[i] = Math.min(...below[i].map((j) => row[j])) - 1;
  }
  const least = count ? Math.min(...row) : 0;
  const places = nodes.map((_, i) => ({ node: i, row: row[i] - least, x: 0, up: [], down: [], width: NODE_WIDTH }));
  const paths = edges.map(([from, to]) => {
    const path = [places[from]];
    for (let r = places[from].row + 1; r < places[to].row; ++r) {
      const bend = { node: -1, row: r, x: 0, up: [], down: [], width: BEND_WIDTH };
      places.push(bend);
      path.push(bend);
    }
    path.push(places[to]);
    for (let k = 1; k < path.length; ++k) { path[k - 1].down.push(path[k]); path[k].up.push(path[k - 1]); }
    return path;
  });
  const rows = [];
  for (const place of places) (rows[place.row] = rows[place.row] || []).push(place);
  for (let r = 0; r < rows.length; ++r) rows[r] = rows[r] || [];
  const number = (list) => list.forEach((place, i) => { place.order = i; });
  rows.forEach(number);
  const mean = (list, key) => list.reduce((sum, place) => sum + place[key], 0) / list.length;
  for (let sweep = 0; sweep < SWEEPS; ++sweep) {
    const down = sweep % 2 === 0;
    for (let step = 0; step < rows.length; ++step) {
      const list = rows[down ? step : rows.length - 1 - step];
      for (const place of list) {
        const seen = down ? place.up : place.down;
        place.wish = seen.length ? mean(seen, "order") : place.order;
      }
      list.sort((a, b) => a.wish - b.wish || a.order - b.order);
      number(list);
    }
  }
  // Each row as wide as it must be, then towards the neighbours without changing the order.
  for (const list of rows) {
    let x = 0;
    for (const place of list) { place.x = x + place.width / 2; x += place.width + GAP_X; }
    for (const place of list) place.x -= (x - GAP_X) / 2;
  }
  const space = (a, b) => (a.width + b.width) / 2 + GAP_X;
  for (let sweep = 0; sweep < SWEEPS; ++sweep) {
    const down = sweep % 2 === 0;
    for (let step = 0; step < rows.length; ++step) {
      const list = rows[down ? step : rows.length - 1 - step];
      const wishes = list.map((place) => {
        const seen = down ? place.up : place.down;
        return seen.length ? mean(seen, "x") : place.x;
      });
      // The mean of pushing everything to the right and to the left keeps the distances and moves nobody far.
      const right = [...wishes], left = [...wishes];
      for (let i = 1; i < list.length; ++i) right[i] = Math.max(right[i], right[i - 1] + space(list[i - 1], list[i]));
      for (let i = list.length - 2; i >= 0; --i) left[i] = Math.min(left[i], left[i + 1] - space(list[i], list[i + 1]));
      list.forEach((place, i) => { place.x = (left[i] + right[i]) / 2; });
    }
  }
  for (const place of places) place.y = place.row * (NODE_HEIGHT + GAP_Y);
  return { places: places.slice(0, count), rows, paths };
}
