// Numbers and text as people read them, and the making of elements. Text always goes in as text nodes.

const THIN = "\u202f"; // narrow space that does not break, between a number and its unit
const MINUS = "\u2212";
const DASH = "\u2013";

function isNumber(value) {
  return typeof value === "number" && Number.isFinite(value);
}

function list(value) {
  return Array.isArray(value) ? value : [];
}

// A pair [low, high] of numbers, or null.
function pair(value) {
  return Array.isArray(value) && value.length === 2 && value.every(isNumber) ? value : null;
}

function signed(text) {
  return text.startsWith("-") ? MINUS + text.slice(1) : text;
}

// `digits` significant digits without exponent: 0.00168, 1.72, 412.
function significant(value, digits) {
  if (value === 0) return "0";
  const magnitude = Math.floor(Math.log10(Math.abs(value)));
  const places = Math.min(Math.max(digits - 1 - magnitude, 0), 12);
  return signed(value.toFixed(places));
}

function grouped(value) {
  return signed(String(Math.round(value)).replace(/\B(?=(\d{3})+(?!\d))/g, ","));
}

const format = {
  ms(value) {
    if (!isNumber(value)) return DASH;
    if (value !== 0 && Math.abs(value) < 0.1) return significant(value * 1000, 3) + THIN + "µs";
    if (Math.abs(value) >= 10000) return significant(value / 1000, 3) + THIN + "s";
    return (Math.abs(value) >= 1000 ? grouped(value) : significant(value, 3)) + THIN + "ms";
  },
  // Bounds of an interval with enough digits to differ.
  range(bounds, show) {
    const ends = pair(bounds);
    return ends ? show(ends[0]) + " to " + show(ends[1]) : DASH;
  },
  msPrecise(value) {
    if (!isNumber(value)) return DASH;
    return value < 0.1 ? significant(value * 1000, 4) + THIN + "µs" : significant(value, 4) + THIN + "ms";
  },
  seconds(value) {
    if (!isNumber(value)) return DASH;
    if (value < 1) return significant(value * 1000, 3) + THIN + "ms";
    if (value < 120) return significant(value, value < 10 ? 2 : 3) + THIN + "s";
    return Math.floor(value / 60) + THIN + "min " + Math.round(value % 60) + THIN + "s";
  },
  bytes(value) {
    if (!isNumber(value)) return DASH;
    const units = ["B", "kB", "MB", "GB", "TB"];
    let unit = 0;
    while (Math.abs(value) >= 1000 && unit < units.length - 1) {
      value /= 1000;
      unit += 1;
    }
    return (unit === 0 ? String(Math.round(value)) : value >= 100 ? value.toFixed(0) : significant(value, 3)) + THIN + units[unit];
  },
  large(value) {
    if (!isNumber(value)) return DASH;
    for (const [size, unit] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
      if (Math.abs(value) >= size) return significant(value / size, 3) + THIN + unit;
    }
    return String(value);
  },
  count(value) {
    return isNumber(value) ? grouped(value) : DASH;
  },
  rate(value) {
    if (!isNumber(value)) return DASH;
    return value >= 1000 ? grouped(value) : significant(value, 3);
  },
  percent(share, places = 2) {
    if (!isNumber(share)) return DASH;
    const least = 10 ** -places;
    if (share > 0 && share * 100 < least / 2) return "<" + THIN + least.toFixed(places) + THIN + "%";
    return signed((share * 100).toFixed(places)) + THIN + "%";
  },
  points(share) {
    if (!isNumber(share)) return DASH;
    const text = (Math.abs(share) * 100).toFixed(2);
    return (Number(text) === 0 ? "" : share < 0 ? MINUS : "+") + text;
  },
  times(value) {
    if (!isNumber(value)) return DASH;
    return format.timesPrecise(value) + "×";
  },
  timesPrecise(value) {
    return isNumber(value) ? value.toFixed(value < 9.995 ? 2 : value < 99.95 ? 1 : 0) : DASH;
  },
  small(value, digits = 2) {
    if (!isNumber(value)) return DASH;
    return value !== 0 && Math.abs(value) < 1e-5 ? signed(value.toExponential(1)) : significant(value, digits);
  },
  decibel(value) {
    return isNumber(value) ? signed(value.toFixed(1)) + THIN + "dB" : DASH;
  },
  probability(value) {
    if (!isNumber(value)) return DASH;
    return value < 0.001 ? "<" + THIN + "0.001" : value < 0.1 ? value.toFixed(3) : value.toFixed(2);
  },
  shape(sizes) {
    return list(sizes).map((size) => (isNumber(size) && size >= 0 ? String(size) : typeof size === "string" ? size : "?")).join("×");
  },
};

function precisionName(precision) {
  return precision ? String(precision).toUpperCase() : "not stated";
}

// "constant_images" as "Constant images".
function words(name) {
  const text = String(name).replace(/_/g, " ");
  return text.charAt(0).toUpperCase() + text.slice(1);
}

// Numbers and their units kept on one line.
function glue(text) {
  return String(text).replace(/(\d) (pt|ms|µs|%)/g, "$1\u00a0$2");
}

// A long name without its middle, or in little room without its start: layers differ at their ends.
function shorten(name, length) {
  if (name.length <= length) return name;
  if (length < 32) return "…" + name.slice(name.length - length + 1);
  const tail = Math.ceil((length - 1) * 0.6);
  return name.slice(0, length - 1 - tail) + "…" + name.slice(name.length - tail);
}

function el(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined && child !== false) {
      element.append(child instanceof Node ? child : String(child));
    }
  }
  return element;
}
