// Draws a Plot (see figures.py) as SVG. Colors, dashes and fills are classes of the style sheet: nothing is styled inline.

const SVG = "http://www.w3.org/2000/svg";
const MARGIN = { top: 12, right: 22, bottom: 44, left: 66 };
const MARKERS = { private: "circle", "non-private": "square", a: "triangle", b: "diamond" };

export function make(name, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

export function format(value) {
  if (value === null || !Number.isFinite(value)) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e5 || size < 1e-3) {
    const [digits, power] = value.toExponential(2).split("e");
    const short = String(Number(digits));
    return (short === "1" ? "" : short === "-1" ? "−" : short + "·") + "10" + superscript(Number(power));
  }
  return grouped(String(Number(value.toPrecision(4)))).replace("-", "−");
}

// A whole number of five digits or more, in groups of three.
const grouped = (text) => text.replace(/(?<![\d.,])\d{5,}(?![\d.,]*\d)/g, (digits) => digits.replace(/\B(?=(\d{3})+$)/g, "\u202f"));

function superscript(number) {
  return String(number).replace(/[-0-9]/g, (c) => (c === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[c]));
}

// A text with its small numbers as powers of ten and its long ones in groups; neither these nor "δ = …" break at the end
// of a line.
export const powers = (text) => grouped(text).replace(/(\d(?:\.\d+)?)e-0*(\d+)/g, (_, digits, power) =>
  `${digits === "1" ? "" : `${digits}·`}10${superscript(-Number(power))}`).replace(/([εδσ]) = /g, "$1\u00a0=\u00a0");

// One axis: from a value to a place, its ticks, and whether a value can be shown.
function axis(values, scale, start, end, zero, apart = 70) {
  const log = scale === "log";
  let found = values.filter((v) => v !== null && Number.isFinite(v) && (!log || v > 0));
  if (!found.length) found = log ? [1, 10] : [0, 1];
  let low = Infinity, high = -Infinity;
  for (const v of found) { if (v < low) low = v; if (v > high) high = v; }
  if (log) {
    if (low === high) { low /= 2; high *= 2; }
    const place = (v) => start + ((Math.log(v) - Math.log(low)) / (Math.log(high) - Math.log(low))) * (end - start);
    const value = (at) => low * (high / low) ** ((at - start) / (end - start));
    return { place, value, ticks: logTicks(low, high, Math.abs(end - start)), shows: (v) => v !== null && v > 0, low, high };
  }
  if (zero && low > 0 && low < 0.6 * high) low = 0;
  if (low === high) { if (low === 0) high = 1; else { low -= 0.5; high += 0.5; } }
  const step = niceStep((high - low) / Math.max(2, Math.abs(end - start) / apart));
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++) ticks.push(Number((i * step).toPrecision(12)));
  const value = (at) => low + ((at - start) / (end - start)) * (high - low);
  return { place: (v) => start + ((v - low) / (high - low)) * (end - start), value, ticks, shows: (v) => v !== null, low, high };
}

function niceStep(rough) {
  const power = 10 ** Math.floor(Math.log10(rough));
  return power * [1, 2, 5, 10].find((each) => each * power >= rough * 0.999);
}

function logTicks(low, high, length) {
  const decades = Math.log10(high / low);
  const ticks = [];
  if (decades < 1.2) {
    const step = niceStep((high - low) / Math.max(2, length / 90));
    for (let i = Math.ceil(low / step); i * step <= high * 1.0000001; i++) if (i > 0) ticks.push(Number((i * step).toPrecision(12)));
    return ticks;
  }
  const every = Math.max(1, Math.ceil(decades / Math.max(2, length / 55)));
  const inner = decades < 3 && length >= 110 * decades ? [1, 2, 5] : [1];
  for (let e = Math.floor(Math.log10(low)); e <= Math.log10(high) + 1e-9; e++) {
    if (e % every) continue;
    for (const m of inner) { const v = m * 10 ** e; if (v >= low * 0.9999999 && v <= high * 1.0000001) ticks.push(v); }
  }
  return ticks;
}

const finite = (v) => v !== null && v !== undefined && Number.isFinite(v);

function path(points) {
  let text = "", pen = "M";
  for (const point of points) {
    if (point === null) { pen = "M"; continue; }
    text += pen + point[0].toFixed(1) + " " + point[1].toFixed(1);
    pen = "L";
  }
  return text;
}

function marker(shape, x, y, r) {
  if (shape === "square") return make("rect", { x: x - r, y: y - r, width: 2 * r, height: 2 * r });
  if (shape === "triangle") return make("path", { d: `M${x} ${y - r}L${x + r} ${y + r}L${x - r} ${y + r}Z` });
  if (shape === "diamond") return make("path", { d: `M${x} ${y - r}L${x + r} ${y}L${x} ${y + r}L${x - r} ${y}Z` });
  return make("circle", { cx: x, cy: y, r });
}

// Returns a figure element: a drawing, a legend in words, and its data as a table. A drawing is at most `most` high; what
// is pressed or dragged in it is given to `set(control, value, isFinal)`.
export function draw(plot, width, { most = Infinity, set = null } = {}) {
  const figure = document.createElement("figure");
  figure.className = "plot";
  const caption = document.createElement("figcaption");
  caption.textContent = powers(plot.title);
  figure.append(caption);
  const images = plot.series.filter((s) => s.kind === "image");
  const graphs = plot.series.filter((s) => s.kind !== "image");
  if (images.length) figure.append(gallery(images));
  if (graphs.length) {
    figure.append(legend(graphs));
    figure.append(graph(plot, graphs, Math.max(240, width), most, set));
  }
  figure.append(table(plot));
  return figure;
}

const LEAST = 150;  // the height of a drawing, however small the window is
const MARK = 14, MARK_ROWS = 3;  // the height of a mark's label, and how many of them stand above each other

function graph(plot, graphs, width, most, set) {
  if (graphs.some((s) => s.kind === "people")) return crowd(plot, graphs, width, most, set);
  const wanted = plot.equal ? Math.min(420, width * 0.8) : Math.min(360, Math.max(230, width * 0.5));
  const height = Math.round(Math.max(LEAST, Math.min(wanted, most)));
  const top = MARGIN.top + MARK * Math.min(plot.marks.length, MARK_ROWS);  // labels of marks stand above what is drawn
  const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": describe(plot, graphs), class: "graph" });
  const xs = [], ys = [];
  for (const s of graphs) {
    for (const key of ["x", "x2"]) for (const v of s[key] || []) xs.push(v);
    for (const key of ["y", "y2"]) for (const v of s[key] || []) ys.push(v);
  }
  for (const [place] of plot.marks) xs.push(place);
  if (plot.equal) widen(xs, ys, (width - MARGIN.left - MARGIN.right) / (height - top - MARGIN.bottom));
  const barred = graphs.some((s) => s.kind === "bars" || s.kind === "area");
  if (graphs.some((s) => s.kind === "bars") && plot.x_scale !== "log") pad(xs, graphs);
  if (barred && plot.y_scale !== "log") { const found = ys.filter(finite); ys.push(1.04 * Math.max(...found), 1.04 * Math.min(...found)); }
  if (!plot.equal && graphs.some((s) => s.kind === "points" || s.kind === "ranges")) lift(ys, plot.y_scale);
  if (barred && plot.y_scale === "log") ys.push(0.6 * Math.min(...ys.filter((v) => v > 0)));
  const across = axis(xs, plot.x_scale, MARGIN.left, width - MARGIN.right, false);
  const up = axis(barred && plot.y_scale !== "log" ? [...ys, 0] : ys, plot.y_scale, height - MARGIN.bottom, top, !plot.equal, 42);
  frame(svg, plot, across, up, width, height, top);
  const bars = graphs.filter((s) => s.kind === "bars").length;
  let bar = 0;
  for (const s of graphs) {
    const group = make("g", { class: `series ${s.kind} role-${s.role}` });
    const at = (i, other) => {
      const x = (other && s.x2 ? s.x2 : s.x)[i], y = (other ? s.y2 : s.y)[i];
      return finite(x) && finite(y) && across.shows(x) && up.shows(y) ? [across.place(x), up.place(y)] : null;
    };
    const all = Array.from(s.x, (_, i) => at(i, false));
    if (s.kind === "line") group.append(make("path", { d: path(all) }));
    else if (s.kind === "steps") group.append(make("path", { d: path(all.flatMap((p, i) => (i && p && all[i - 1] ? [[p[0], all[i - 1][1]], p] : [p]))) }));
    else if (s.kind === "points") for (const p of all) { if (p) group.append(marker(MARKERS[s.role], p[0], p[1], s.role === "bound" ? 7 : all.length > 400 ? 3 : 4.2)); }
    else if (s.kind === "bars") drawBars(group, s, across, up, bar++, bars);
    else if (s.kind === "band" || s.kind === "area") {
      const floor = up.place(plot.y_scale === "log" ? up.low : Math.max(0, up.low));
      const back = s.kind === "band" ? s.x.map((_, i) => at(i, true)) : all.map((p) => p && [p[0], floor]);
      const kept = all.map((p, i) => [p, back[i]]).filter(([p, q]) => p && q);
      if (kept.length) group.append(make("path", { d: path([...kept.map((k) => k[0]), ...kept.map((k) => k[1]).reverse()]) + "Z" }));
    } else if (s.kind === "ranges") s.x.forEach((_, i) => {
      const p = at(i, false), q = at(i, true);
      if (p && q) group.append(make("path", { d: path([p, q, null, [p[0] - 4, p[1]], [p[0] + 4, p[1]], null, [q[0] - 4, q[1]], [q[0] + 4, q[1]]]) }));
    });
    else if (s.kind === "arrows") s.x.forEach((_, i) => { const p = at(i, false), q = at(i, true); if (p && q) group.append(arrow(p, q)); });
    svg.append(group);
  }
  plot.marks.forEach(([place, label], i) => {
    if (!finite(place) || !across.shows(place)) return;
    const x = across.place(place);
    const late = x > width * 0.7;
    svg.append(make("g", { class: "mark" },
      make("line", { x1: x, x2: x, y1: MARGIN.top + MARK * (i % MARK_ROWS), y2: height - MARGIN.bottom }),
      make("text", { x: late ? x - 4 : x + 4, y: MARGIN.top + 9 + MARK * (i % MARK_ROWS), "text-anchor": late ? "end" : "start" }, powers(label))));
  });
  touch(svg, plot, graphs, across, up, width, height, set);
  return svg;
}

// Shows the values of the point that is nearest to the pointer, and sets the input that belongs to the picture.
function touch(svg, plot, graphs, across, up, width, height, set) {
  const points = [];
  for (const s of graphs) {
    for (let i = 0; i < s.x.length; i++) {
      for (const [xs, ys] of [[s.x, s.y], [s.x2 ?? s.x, s.y2]]) {
        if (ys && finite(xs[i]) && finite(ys[i]) && across.shows(xs[i]) && up.shows(ys[i])) {
          points.push({ x: across.place(xs[i]), y: up.place(ys[i]), text: `${s.name}: ${plot.x_label} ${format(xs[i])}, ${plot.y_label} ${format(ys[i])}`, id: s.ids?.[i] });
        }
      }
    }
  }
  const inside = (event, box = svg.getBoundingClientRect()) => [(event.clientX - box.left) * width / box.width, (event.clientY - box.top) * height / box.height];
  const nearest = ([x, y]) => points.reduce((best, p) => { const d = Math.hypot(p.x - x, p.y - y); return d < best.d ? { d, p } : best; }, { d: 28, p: null }).p;
  let note = null;
  svg.addEventListener("pointermove", (event) => {
    const found = nearest(inside(event));
    if (note?.point === found) return;
    note?.root.remove();
    note = null;
    if (!found) return;
    const late = found.x > width / 2;
    const root = make("g", { class: "note-at" }, make("circle", { cx: found.x, cy: found.y, r: 5 }),
      make("text", { x: late ? found.x - 9 : found.x + 9, y: Math.max(MARGIN.top + 10, found.y - 9), "text-anchor": late ? "end" : "start" }, powers(found.text)));
    svg.append(root);
    note = { root, point: found };
  });
  svg.addEventListener("pointerleave", () => { note?.root.remove(); note = null; });
  if (!set) return;
  if (plot.pick) svg.addEventListener("click", (event) => { const found = nearest(inside(event)); if (found?.id !== undefined) set(plot.pick, found.id, true); });
  if (plot.drag) dragged(svg, (event, box) => { const [x, y] = inside(event, box); return plot.vertical ? up.value(y) : across.value(x); }, (value, isFinal) => set(plot.drag, value, isFinal));
}

// Follows a pointer that was pressed on a drawing, also when the drawing is replaced under it.
function dragged(svg, valueAt, report) {
  svg.classList.add("movable");
  svg.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    const box = svg.getBoundingClientRect();  // that of the first drawing: what replaces it may have other ends
    const at = (each) => valueAt(each, box);
    let last = at(event);
    report(last, false);
    const move = (each) => { last = at(each); report(last, false); };
    const end = () => { removeEventListener("pointermove", move); removeEventListener("pointerup", end); removeEventListener("pointercancel", end); report(last, true); };
    addEventListener("pointermove", move);
    addEventListener("pointerup", end);
    addEventListener("pointercancel", end);
    event.preventDefault();
  });
}

// Draws people, without axes: who belongs to which series shows by shape and color.
function crowd(plot, graphs, width, most, set) {
  const columns = Math.max(...graphs.flatMap((s) => [...s.x])), rows = Math.max(...graphs.flatMap((s) => [...s.y]));
  const cell = Math.max(9, Math.min(width / columns, Math.min(most, 0.62 * width) / rows));
  const tall = Math.round(cell * rows), left = (width - cell * columns) / 2;
  const svg = make("svg", { viewBox: `0 0 ${width} ${tall}`, width, height: tall, role: "img", "aria-label": `${plot.title}. ${graphs.map((s) => `${s.name}: ${s.x.length}`).join(", ")}.`, class: "graph people" });
  for (const s of graphs) {
    const group = make("g", { class: `series people role-${s.role}` });
    s.x.forEach((x, i) => {
      const at = make("g", { transform: `translate(${(left + (x - 0.5) * cell).toFixed(1)} ${((s.y[i] - 0.5) * cell).toFixed(1)}) scale(${(cell / 22).toFixed(3)})` }, ...person(s.role));
      if (set && plot.pick && s.ids) at.addEventListener("click", () => set(plot.pick, s.ids[i], true));
      group.append(at);
    });
    svg.append(group);
  }
  if (plot.pick) svg.classList.add("movable");
  return svg;
}

// A head and shoulders in a square of 22; one group raises an arm, the chosen one has a ring.
function person(role) {
  const parts = [make("rect", { x: -11, y: -11, width: 22, height: 22, class: "cell" }), make("circle", { cx: 0, cy: -4.5, r: 3.6 }), make("path", { d: "M-6.5 9V6a6.5 5 0 0 1 13 0V9Z" })];
  if (role === "a") parts.push(make("path", { d: "M5 3L9.5 -5", class: "arm" }));
  if (role === "bound") parts.push(make("circle", { cx: 0, cy: 0, r: 10.2, class: "ring" }));
  return parts;
}

// Adds ends to the shorter range, so that a unit is as long on both axes.
function widen(xs, ys, ratio) {
  const range = (values) => { const found = values.filter(finite); return [Math.min(...found), Math.max(...found)]; };
  const [left, right] = range(xs), [low, high] = range(ys);
  const grow = (values, from, to, by) => values.push(from - by / 2, to + by / 2);
  const missing = (high - low) * ratio - (right - left);
  if (missing > 0) grow(xs, left, right, missing);
  else grow(ys, low, high, -missing / ratio);
}

// Adds room for half a point above and below.
function lift(ys, scale) {
  const found = ys.filter((v) => finite(v) && (scale !== "log" || v > 0));
  const low = Math.min(...found), high = Math.max(...found);
  if (scale === "log") ys.push(low / (high / low) ** 0.03, high * (high / low) ** 0.03);
  else ys.push(low - 0.03 * (high - low), high + 0.03 * (high - low));
}

// Adds room for half a bar at both ends.
function pad(xs, graphs) {
  const places = [...new Set(graphs.flatMap((s) => (s.kind === "bars" ? [...s.x] : [])))].sort((a, b) => a - b);
  const gaps = places.slice(1).map((v, i) => v - places[i]);
  const half = 0.55 * (gaps.length ? Math.min(...gaps) : 1);
  if (places.length) xs.push(places[0] - half, places.at(-1) + half);
}

function drawBars(group, s, across, up, index, count) {
  const places = s.x.map((v) => across.place(v)).sort((a, b) => a - b);
  let gap = Infinity;
  for (let i = 1; i < places.length; i++) if (places[i] - places[i - 1] > 0.01) gap = Math.min(gap, places[i] - places[i - 1]);
  if (!Number.isFinite(gap)) gap = 40;
  const wide = Math.max(1, (gap * 0.86) / count);
  const base = up.place(up.low > 0 ? up.low : Math.max(0, up.low));
  s.x.forEach((v, i) => {
    if (!finite(v) || !finite(s.y[i]) || !up.shows(s.y[i])) return;
    const y = up.place(s.y[i]);
    const x = across.place(v) + (index - count / 2) * wide;
    group.append(make("rect", { x: x.toFixed(1), y: Math.min(y, base).toFixed(1), width: wide.toFixed(1), height: Math.abs(base - y).toFixed(1) }));
  });
}

function arrow(p, q) {
  const angle = Math.atan2(q[1] - p[1], q[0] - p[0]);
  const long = Math.hypot(q[0] - p[0], q[1] - p[1]);
  const size = Math.min(7, long / 2);
  const tip = (turn) => [q[0] - size * Math.cos(angle + turn), q[1] - size * Math.sin(angle + turn)];
  return make("path", { d: path([p, q, null, tip(0.45), q, tip(-0.45)]) });
}

function frame(svg, plot, across, up, width, height, top) {
  const grid = make("g", { class: "grid" }), text = make("g", { class: "ticks" });
  const bottom = height - MARGIN.bottom;
  const names = new Map(plot.x_names || []);
  for (const v of names.size ? names.keys() : across.ticks) {
    const x = across.place(v);
    grid.append(make("line", { x1: x, x2: x, y1: top, y2: bottom }));
    text.append(make("text", { x, y: bottom + 16, "text-anchor": "middle" }, names.get(v) ?? format(v)));
  }
  for (const v of up.ticks) {
    const y = up.place(v);
    grid.append(make("line", { x1: MARGIN.left, x2: width - MARGIN.right, y1: y, y2: y }));
    text.append(make("text", { x: MARGIN.left - 6, y: y + 4, "text-anchor": "end" }, format(v)));
  }
  const middle = (top + bottom) / 2;
  svg.append(grid, make("path", { class: "axes", d: `M${MARGIN.left} ${top}V${bottom}H${width - MARGIN.right}` }), text,
    make("text", { class: "axis-label", x: (MARGIN.left + width - MARGIN.right) / 2, y: height - 8, "text-anchor": "middle" }, powers(plot.x_label)),
    make("text", { class: "axis-label", transform: `translate(14 ${middle}) rotate(-90)`, "text-anchor": "middle" }, powers(plot.y_label)));
}

function describe(plot, graphs) {
  return `${plot.title}. ${plot.y_label} over ${plot.x_label}: ${graphs.map((s) => s.name).join(", ")}. The data is in the table below.`;
}

function legend(graphs) {
  const list = document.createElement("ul");
  list.className = "legend";
  for (const s of graphs) {
    const item = document.createElement("li");
    const swatch = make("svg", { viewBox: "0 0 28 12", width: 28, height: 12, "aria-hidden": "true" });
    const group = make("g", { class: `series ${s.kind} role-${s.role}` });
    if (s.kind === "points") group.append(marker(MARKERS[s.role], 14, 6, 4));
    else if (s.kind === "people") group.append(make("g", { transform: "translate(14 6) scale(.55)" }, ...person(s.role).slice(1)));
    else if (s.kind === "bars" || s.kind === "band" || s.kind === "area") group.append(make(s.kind === "bars" ? "rect" : "path", s.kind === "bars" ? { x: 4, y: 1, width: 20, height: 10 } : { d: "M2 1H26V11H2Z" }));
    else group.append(make("path", { d: "M1 6H27" }));
    swatch.append(group);
    item.append(swatch, " " + s.name);
    list.append(item);
  }
  return list;
}

function gallery(images) {
  const list = document.createElement("ul");
  list.className = "images";
  for (const s of images) {
    const item = document.createElement("li");
    const columns = s.x[0] || 1, rows = Math.ceil(s.y.length / columns);
    const svg = make("svg", { viewBox: `0 0 ${columns} ${rows}`, role: "img", "aria-label": s.name, class: "pixels", "shape-rendering": "crispEdges" });
    s.y.forEach((v, i) => {
      const gray = Math.round(255 * Math.min(1, Math.max(0, v ?? 0)));
      svg.append(make("rect", { x: i % columns, y: Math.floor(i / columns), width: 1, height: 1, fill: `rgb(${gray},${gray},${gray})` }));
    });
    const label = document.createElement("span");
    label.textContent = s.name;
    item.append(svg, label);
    list.append(item);
  }
  return list;
}

const MOST_ROWS = 400;

function table(plot) {
  const details = document.createElement("details");
  details.className = "data";
  const summary = document.createElement("summary");
  summary.textContent = "Data as a table";
  details.append(summary);
  details.addEventListener("toggle", () => {
    if (!details.open || details.querySelector("table")) return;
    const box = document.createElement("div");
    box.className = "scroll";
    box.tabIndex = 0;
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", `Data of ${plot.title}`);
    const element = document.createElement("table");
    const head = element.createTHead().insertRow();
    for (const title of HEADER(plot)) { const th = document.createElement("th"); th.scope = "col"; th.textContent = title; head.append(th); }
    const body = element.createTBody();
    for (const row of rows(plot).slice(0, MOST_ROWS)) {
      const line = body.insertRow();
      row.forEach((cell) => { line.insertCell().textContent = typeof cell === "number" ? format(cell) : cell ?? ""; });
    }
    box.append(element);
    details.append(box);
  });
  return details;
}

const HEADER = (plot) => ["series", plot.x_label || "x", plot.y_label || "y", "to x", "to y"];

function* cells(plot) {
  for (const s of plot.series) {
    for (let i = 0; i < s.y.length; i++) yield [s.name, s.kind === "image" ? i : s.x[i], s.y[i], s.x2 ? s.x2[i] : "", s.y2 ? s.y2[i] : ""];
  }
}

export function rows(plot) {
  return [...cells(plot)];
}

export function csv(plots) {
  const quote = (v) => { const text = String(v ?? ""); return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text; };
  const lines = [];
  for (const plot of plots) {
    lines.push(["plot", ...HEADER(plot)].map(quote).join(","));
    for (const row of cells(plot)) lines.push([plot.title, ...row].map(quote).join(","));
  }
  return lines.join("\r\n") + "\r\n";
}

// A drawing that stands by itself: what the style sheet said becomes attributes.
export function standalone(svg) {
  const copy = svg.cloneNode(true);
  const theirs = copy.querySelectorAll("*"), ours = svg.querySelectorAll("*");
  const names = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin", "font-family", "font-size"];
  ours.forEach((element, i) => {
    const style = getComputedStyle(element);
    for (const name of names) { const value = style.getPropertyValue(name); if (value) theirs[i].setAttribute(name, value); }
  });
  const ground = make("rect", { width: "100%", height: "100%", fill: getComputedStyle(document.body).backgroundColor });
  copy.prepend(ground);
  copy.setAttribute("xmlns", SVG);
  return new XMLSerializer().serializeToString(copy);
}
