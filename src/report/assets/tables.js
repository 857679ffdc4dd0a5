// Tables in a region of their own that scrolls sideways, so that the page never does.

// columns: [{title, number}]; rows: arrays of strings or elements, or {cells, chosen}. The first cell names its row.
function makeTable(label, columns, rows, options = {}) {
  const cellClass = (column, index) => (column.number ? "number" : column.mono ? "mono" : index === 0 ? "name" : column.className);
  const head = el("tr", {}, columns.map((column, i) => el("th", { scope: "col", class: cellClass(column, i) }, column.title)));
  const body = rows.map((row) => {
    const cells = Array.isArray(row) ? row : row.cells;
    return el(
      "tr",
      { class: row.chosen ? "chosen" : null },
      cells.map((cell, i) => el(i === 0 ? "th" : "td", { scope: i === 0 ? "row" : null, class: cellClass(columns[i], i) }, cell)),
    );
  });
  const table = el(
    "table",
    {},
    el("thead", {}, head),
    el("tbody", {}, body),
  );
  const region = el("div", { class: options.tall ? "scroll tall" : "scroll", role: "region", "aria-label": label, tabindex: "0" }, table);
  return options.caption ? el("div", {}, el("p", { class: "caption" }, options.caption), region) : region;
}

function disclosure(title, content) {
  return el("details", {}, el("summary", {}, title), content);
}

// Pairs of a name and a value; pairs without a value are left out.
function makePairs(entries) {
  const shown = entries.filter(([, value]) => value !== null && value !== undefined && value !== "" && value !== DASH);
  if (shown.length === 0) return null;
  return el("dl", { class: "pairs" }, shown.map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]).flat());
}

function mono(text) {
  return text ? el("span", { class: "mono" }, text) : null;
}
