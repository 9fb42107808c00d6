// Mounts a figure on <section data-figure=NAME>: inputs, answer, exports. State is in the query of the address.

import { draw, csv, format, powers, standalone } from "./plot.js";

const token = () => document.querySelector("meta[name=token]").content;
let serial = 0;
const PENDING = "…";  // a number that is still being computed

export function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key in made && key !== "list") made[key] = value;
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

export async function post(path, body) {
  return fetch(path, { method: "POST", headers: { "content-type": "application/json", "x-ferrodp-token": token() }, body: JSON.stringify(body) });
}

// A public server limits how many requests a client sends: what it puts off is asked again.
async function get(path, options) {
  for (;;) {
    const response = await fetch(path, options);
    if (response.status !== 429) return response;
    await new Promise((resolve) => setTimeout(resolve, 400));
  }
}

export function download(name, kind, text) {
  const url = URL.createObjectURL(new Blob([text], { type: kind }));
  element("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

// A number as an address and a field write it.
const plain = (value) => (typeof value !== "number" ? String(value) : Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(6))));

// One input. `value()` is the text that the server reads; `changed(isFinal)` is called for every change.
export class Input {
  constructor(control, changed) {
    this.control = control;
    this.changed = changed;
    this.id = `control-${++serial}`;
    this.root = control.choices ? this.select() : control.plain ? this.plainField() : this.slider();
  }

  select() {
    const c = this.control;
    this.field = element("select", { id: this.id, name: c.name }, ...c.choices.map(([value, label]) => element("option", { value }, label)));
    this.field.value = c.default;
    this.field.addEventListener("change", () => this.changed(true));
    return element("div", { className: "control" }, element("label", { htmlFor: this.id }, c.label), this.field);
  }

  // A number that nobody would look for with a slider: the seed.
  plainField() {
    const c = this.control;
    this.field = element("input", { type: "number", id: this.id, name: c.name, min: c.low, max: c.high, step: 1, inputMode: "numeric", required: true });
    this.field.value = plain(c.default);
    this.field.addEventListener("change", () => { if (this.field.checkValidity()) this.changed(true); });
    return element("span", { className: "plain" }, element("label", { htmlFor: this.id }, c.label), this.field);
  }

  slider() {
    const c = this.control;
    this.field = element("input", { type: "number", id: this.id, name: c.name, min: c.low, max: c.high, step: c.integer ? 1 : "any", inputMode: c.integer ? "numeric" : "decimal", required: true });
    this.range = element("input", { type: "range", min: 0, max: 1000, step: 1, "aria-label": `${c.label}, slider` });
    this.hint = element("p", { className: "hint", id: `${this.id}-hint` });
    this.field.setAttribute("aria-describedby", this.hint.id);
    const button = (sign, word) => {
      const made = element("button", { type: "button", className: "step", "aria-label": `${c.label}: ${word}` }, sign);
      made.addEventListener("click", () => this.nudge(sign === "+" ? 1 : -1));
      return made;
    };
    this.range.addEventListener("input", () => { this.field.value = plain(this.at(this.range.value / 1000)); this.show(); this.changed(false); });
    this.range.addEventListener("change", () => this.changed(true));
    // Keys step like the buttons: a thousandth of the range may be less than a whole number.
    const keys = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 };
    this.range.addEventListener("keydown", (event) => { if (event.key in keys) { event.preventDefault(); this.nudge(keys[event.key], false); } });
    this.range.addEventListener("keyup", (event) => { if (event.key in keys) this.changed(true); });
    this.field.addEventListener("input", () => { this.show(); this.changed(false); });
    this.field.addEventListener("change", () => { this.show(); this.changed(this.field.checkValidity()); });
    if (c.exact) this.range.hidden = true;
    const unit = c.unit ? [element("span", { className: "unit" }, c.unit)] : [];
    const ends = element("div", { className: "ends" },
      element("span", {}, `${format(c.low)}${c.low_label ? ": " + c.low_label : ""}`), element("span", {}, `${format(c.high)}${c.high_label ? ": " + c.high_label : ""}`));
    ends.hidden = Boolean(c.exact);
    this.field.value = plain(c.default);
    const root = element("div", { className: "control" },
      element("div", { className: "value" }, element("label", { htmlFor: this.id }, c.label), button("−", "less"), this.field, ...unit, button("+", "more")),
      this.range, ends, this.hint);
    this.show();
    return root;
  }

  at(share) {
    const { low, high, scale, integer, step } = this.control;
    let value = scale === "log" ? low * (high / low) ** share : low + (high - low) * share;
    if (integer) value = Math.round(value);
    else if (step) value = Number((Math.round(value / step) * step).toPrecision(12));
    return Math.min(high, Math.max(low, value));
  }

  share(value) {
    const { low, high, scale } = this.control;
    return scale === "log" ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
  }

  nudge(sign, isFinal = true) {
    const { low, high, integer, step } = this.control;
    const old = Number(this.field.value);
    let value = this.control.exact ? old + sign : step ? old + sign * step : this.at(Math.round(this.share(old) * 50 + sign) / 50);
    if (integer && value === old) value = old + sign;
    this.field.value = plain(Math.min(high, Math.max(low, value)));
    this.show();
    this.changed(isFinal);
  }

  // Moves the slider to the number and warns before the end of the range.
  show() {
    if (!this.range) return;
    const { low, high, low_label, high_label, label } = this.control;
    const value = Number(this.field.value);
    if (this.reason) { this.hint.textContent = this.reason; return; }
    if (!this.field.checkValidity()) {
      this.hint.textContent = `Enter ${this.control.integer ? "a whole number" : "a number"} from ${plain(low)} to ${plain(high)}.`;
      return;
    }
    const share = this.share(value);
    this.range.value = Math.round(1000 * share);
    this.range.setAttribute("aria-valuetext", `${plain(value)} ${this.control.unit || ""}`.trim());
    const untouched = this.field.value === plain(this.control.default);
    const near = this.control.exact || untouched ? null : share <= 0.04 ? [low, low_label] : share >= 0.96 ? [high, high_label] : null;
    this.hint.textContent = near ? `Near the end of the range (${plain(near[0])})${near[1] ? `: ${near[1]}` : ""}.` : "";
    this.hint.title = label;
  }

  // An input that has no effect at present is dimmed, and says why.
  idle(why) {
    const before = this.reason;
    this.reason = why;
    this.root.classList.toggle("idle", Boolean(why));
    for (const each of this.root.querySelectorAll("input, select, button")) each.disabled = Boolean(why);
    if (before !== why && this.hint) { if (why) this.hint.textContent = why; else this.show(); }
  }

  get valid() { return Boolean(this.reason) || this.control.choices ? true : this.field.checkValidity(); }
  get value() { return this.field.value; }
  set value(text) { this.field.value = text; if (!this.control.choices) this.show(); }
  get name() { return this.control.name; }
  reset() { this.value = plain(this.control.default); }
}

export const SEED = { name: "seed", label: "Seed of this page", default: 1, low: 0, high: 2147483647, integer: true, plain: true };

// A group of inputs that lives in the address: replaced while a slider moves, pushed when it is let go.
export class Inputs {
  constructor(controls, changed) {
    this.all = controls.map((c) => new Input(c, (isFinal) => { this.dim(); if (isFinal) this.write("pushState"); changed(isFinal); }));
    this.read();
    addEventListener("popstate", () => { this.read(); changed(true); });
  }

  // What has no effect with a choice that was made.
  dim() {
    for (const input of this.all.filter((each) => each.control.needs)) {
      const [name, values] = input.control.needs;
      const chosen = this.all.find((each) => each.name === name);
      const label = chosen.control.choices.find(([value]) => value === chosen.value)?.[1];
      input.idle(values.includes(chosen.value) ? "" : `No effect while “${chosen.control.label}” is “${label}”.`);
    }
  }

  read() {
    const query = new URLSearchParams(location.search);
    for (const input of this.all) {
      const text = query.get(input.name);
      if (text === null) input.reset();
      else {
        input.value = text;
        if (input.value !== text && input.control.choices) input.reset();
        if (!input.valid || input.value === "") input.reset();
      }
    }
    this.dim();
  }

  write(how) {
    const query = new URLSearchParams(location.search);
    for (const input of this.all) query.set(input.name, input.value);
    const address = `${location.pathname}?${query}${location.hash}`;
    if (address !== location.pathname + location.search + location.hash) history[how](null, "", address);
    document.dispatchEvent(new CustomEvent("explorer:state"));
  }

  get valid() { return this.all.every((input) => input.valid); }
  get values() { return Object.fromEntries(this.all.map((input) => [input.name, input.value])); }
}

// A number as people read it: small ones as powers, long ones in groups, a true minus.
const readable = (text) => (/^-?\d{5,}$/.test(text) ? text.replace(/\B(?=(\d{3})+$)/g, "\u202f") : powers(text)).replace(/^-/, "−");

const FEW = 3;  // numbers beside a picture; all of them are among the details

// Shows an answer: picture, sentence, warnings, numbers, plots, cell and exports. With `details`, the first picture and
// `FEW` numbers stand on the stage and the rest among the details; without, everything is in `root`, below the inputs.
export class Output {
  constructor(root, name, { actions = [], details = null, form = null, set = () => {} } = {}) {
    this.name = name;
    this.root = root;
    this.form = form;
    this.set = set;
    this.stage = details ? element("div", { className: "picture" }) : null;
    this.sentence = element("p", { className: "sentence", "aria-live": "polite" });
    this.verdict = element("p", { className: "verdict", role: "status" });
    this.warnings = element("div", { className: "warnings", "aria-live": "polite" });
    this.numbers = element("dl", { className: "numbers" });
    this.all = details ? element("dl", { className: "numbers all" }) : this.numbers;
    this.plots = element("div", { className: "plots" });
    this.earlier = element("p", { className: "earlier" });
    this.code = element("pre", { tabIndex: 0, role: "region", "aria-label": "Python cell" });
    this.said = element("span", { className: "said", role: "status" });
    const copy = element("button", { type: "button" }, "Copy as Python");
    copy.addEventListener("click", () => this.copy());
    const button = (label, make) => { const b = element("button", { type: "button" }, label); b.addEventListener("click", make); return b; };
    const drawings = () => [this.stage, this.plots].flatMap((place) => (place ? [...place.querySelectorAll("svg.graph")] : []));
    const exports = this.exports = element("div", { className: "exports", role: "group", "aria-label": "Export" }, copy,
      button("JSON", () => download(`${name}.json`, "application/json", JSON.stringify(this.answer, null, 1))),
      button("CSV", () => download(`${name}.csv`, "text/csv", csv(this.answer.plots))),
      button("SVG", () => drawings().forEach((svg, i) => download(`${name}-${i + 1}.svg`, "image/svg+xml", standalone(svg)))), this.said);
    const cell = element("details", { className: "cell" }, element("summary", {}, "Python cell with the same numbers"), this.code);
    if (details) {
      this.folded = element("details", { className: "every" }, element("summary", {}, "All numbers, with all digits"), this.all);
      root.append(this.stage, ...(form ? [form] : []), ...actions, this.sentence, this.verdict, this.warnings, this.numbers, this.earlier);
      this.table = element("div", {});
      details.append(this.table, this.plots, this.folded, exports, cell);
    } else {
      root.append(...(form ? [form] : []), this.sentence, this.warnings, ...actions, this.verdict, this.numbers, this.earlier, this.plots, exports, cell);
    }
    let wide = 0;
    const again = () => { const now = (this.stage ?? this.plots).clientWidth; if (this.answer && Math.abs(now - wide) > 8) { wide = now; this.drawPlots(); } };
    new ResizeObserver(again).observe(this.stage ?? this.plots);
    if (this.stage) addEventListener("resize", () => { if (this.answer) this.drawPlots(); });
  }

  // `isFirst`: what is known at once. The plots stay as they are until the whole answer is there.
  show(answer, isFirst = false) {
    const before = this.whole && !this.failed ? this.line() : "";
    if (isFirst) this.answer = { ...answer, plots: this.whole?.plots ?? [] };
    else this.answer = this.whole = answer;
    this.failed = false;
    this.root.classList.remove("failed");
    this.verdict.textContent = "";
    this.sentence.textContent = powers(answer.sentence);
    this.warnings.replaceChildren(...answer.warnings.map((text) => element("p", { className: "warning" }, powers(text))));
    const entries = Object.entries(answer.numbers);
    const row = (label, value, text) => {
      const shown = element("dd", value === PENDING ? { className: "pending" } : {}, text);
      shown.dataset.value = value;
      return element("div", {}, element("dt", {}, label), shown);
    };
    const short = entries.map(([label, value]) => row(label, value, readable(answer.brief?.[label] ?? value)));
    this.numbers.replaceChildren(...(this.stage ? short.slice(0, FEW) : short));
    if (this.stage) this.all.replaceChildren(...entries.map(([label, value]) => row(label, value, value)));
    this.code.textContent = answer.cell;
    this.exports.hidden = this.code.parentElement.hidden = !answer.cell;
    if (!isFirst) this.drawPlots();
    return before;
  }

  // What an action found: its words stand below the sentence, which stays, and its numbers in the place of the others.
  judge(answer) {
    const kept = this.whole;
    this.show({ ...answer, sentence: kept?.sentence ?? "", plots: answer.plots.length ? answer.plots : kept?.plots ?? [] });
    this.verdict.textContent = powers(answer.sentence);
  }

  fail(message, remedy) {
    this.failed = true;
    this.root.classList.add("failed");
    this.warnings.replaceChildren(element("p", { className: "warning" }, `${message}${remedy ? " " + remedy : ""}`));
  }

  line() {
    const [label, value] = Object.entries(this.whole.numbers)[0] || ["", ""];
    return `${powers(label)} ${readable(this.whole.brief?.[label] ?? value)}`;
  }

  drawPlots() {
    const open = [...this.plots.querySelectorAll("details.data")].map((d) => d.open);
    const [first, ...others] = this.stage ? this.answer.plots : [null, ...this.answer.plots];
    if (this.stage) this.drawPicture(first);
    this.plots.classList.toggle("many", others.length > 1);
    const columns = this.plots.clientWidth > 720 && others.length > 1 ? 2 : 1;
    this.plots.classList.toggle("two", columns === 2);
    const width = Math.floor((this.plots.clientWidth - 24 * (columns - 1)) / columns) || 640;
    this.plots.replaceChildren(...others.map((plot) => draw(plot, Math.min(width, 900), { set: this.set })));
    this.plots.querySelectorAll("details.data").forEach((d, i) => { if (open[i]) d.open = true; });
  }

  // The picture takes the height that the window leaves it, so that its main inputs are on the screen, too.
  drawPicture(plot) {
    if (!plot) { this.stage.replaceChildren(); return; }
    const open = this.table.querySelector("details.data")?.open;
    const width = this.stage.clientWidth || 640;
    const top = this.root.getBoundingClientRect().top + scrollY;
    const room = Math.max(200, Math.min(innerHeight, 1200) - Math.min(top, 260) - (this.form?.offsetHeight ?? 0) - 30);
    let figure = draw(plot, width, { most: room - 80, set: this.set });
    let table = figure.querySelector("details.data");
    this.table.replaceChildren(table);
    this.stage.replaceChildren(figure);
    const excess = figure.offsetHeight - room;
    if (figure.querySelector("svg.graph") && (excess > 0 || excess < -24)) {
      figure = draw(plot, width, { most: room - 80 - excess, set: this.set });
      table = figure.querySelector("details.data");
      this.table.replaceChildren(table);
      this.stage.replaceChildren(figure);
    }
    if (open) table.open = true;
  }

  async copy() {
    const text = this.answer ? this.answer.cell : "";
    try { await navigator.clipboard.writeText(text); this.say("Copied."); } catch {
      this.code.closest("details").open = true;
      getSelection().selectAllChildren(this.code);
      this.say("Selected: copy it with Ctrl+C.");
    }
  }

  say(text) { this.said.textContent = text; setTimeout(() => { this.said.textContent = ""; }, 4000); }
}

// Asks the reader about one person after another, shows the truth after each answer, and keeps the score.
class Guesses {
  constructor(next) {
    this.next = next;
    this.right = this.made = 0;
    this.asked = element("p", { className: "asked" });
    this.buttons = element("div", { className: "buttons" });
    this.told = element("p", { className: "truth", role: "status" });
    this.root = element("div", { className: "guess", role: "group", "aria-label": "Guess" }, this.asked, this.buttons, this.told);
    this.root.hidden = true;
  }

  show(guess) {
    this.root.hidden = !guess;
    if (!guess) return;
    this.asked.textContent = powers(guess.ask);
    this.buttons.replaceChildren(...guess.options.map((option, i) => {
      const made = element("button", { type: "button" }, option);
      made.addEventListener("click", () => this.answer(guess, i));
      return made;
    }));
  }

  answer(guess, chosen) {
    const isRight = chosen === guess.right;
    this.made += 1;
    this.right += isRight;
    this.told.textContent = `${isRight ? "Right" : "Wrong"}: ${guess.options[guess.right]}. You were right ${this.right} of ${this.made} times; in the long run the best possible guesser is right ${Math.round(100 * guess.best)} times in 100.`;
    this.next(guess.control);
  }
}

const MOST_EARLIER = 3;
const LONGEST_PAUSE = 250;  // milliseconds: what takes long is asked for once a slider rests

function mount(root) {
  const described = JSON.parse(root.querySelector("script").textContent);
  const controls = described.seeded ? [...described.controls, SEED] : described.controls;
  const details = root.dataset.layout === "picture" ? document.querySelector("[data-details]") : null;
  const form = element("form", { className: "controls", noValidate: true });
  form.addEventListener("submit", (event) => event.preventDefault());
  const buttons = element("div", { className: "buttons" });
  const earlier = [];
  let busy = false, again = false, settled = null, asked = null, abort = null, slowness = 0;

  const inputs = new Inputs(controls, (isFinal) => ask(isFinal));
  const named = (name) => inputs.all.find((input) => input.name === name);
  const shown = inputs.all.filter((input) => !input.control.plain);
  const isMain = (input) => !details || described.main.includes(input.name);
  const sorted = details ? described.main.map(named) : shown;
  form.append(...sorted.map((input) => input.root));
  form.classList.toggle("main", Boolean(details));

  // What is pressed or dragged in a picture is an input like any other.
  function set(name, value, isFinal) {
    const input = named(name);
    const { low, high } = input.control;
    const share = input.share(Math.min(high, Math.max(low, value)));
    input.value = plain(input.at(share));
    if (isFinal) inputs.write("pushState");
    ask(isFinal);
  }

  const guesses = new Guesses((name) => {
    const input = named(name);
    const { low, high } = input.control;
    input.value = String(low + Math.floor(Math.random() * (high - low + 1)));
    inputs.write("replaceState");
    ask(true);
  });
  const output = new Output(root, described.name, { actions: [guesses.root, buttons], details, form, set });
  const rest = shown.filter((input) => !isMain(input));

  async function ask() {
    // A field reports its last input once more when it is left: that is no new question.
    if (!inputs.valid) { root.classList.add("failed"); return; }
    if (new URLSearchParams(inputs.values).toString() === asked) { root.classList.remove("failed"); return; }
    if (busy) { again = true; abort?.abort(); return; }
    busy = true;
    do {
      again = false;
      const query = new URLSearchParams(inputs.values);
      asked = query.toString();
      root.setAttribute("aria-busy", "true");
      try {
        if (!described.first || await known(query)) await whole(query);
      } catch (error) {
        if (error.name !== "AbortError") { asked = null; output.fail("The server does not answer.", "Start it again with: ferrodp explore"); }
      }
      root.dataset.count = Number(root.dataset.count || 0) + 1;
    } while (again);
    root.removeAttribute("aria-busy");
    busy = false;
  }

  // Shows what is known at once; returns whether the rest is still wanted.
  async function known(query) {
    const started = performance.now();
    const response = await get(`/api/first/${described.name}?${query}`);
    const body = await response.json();
    if (!response.ok) { output.fail(body.error.message, body.error.remedy); return false; }
    output.show(body, true);
    measured(body, started);
    if (!again && slowness > 40) await new Promise((resolve) => setTimeout(resolve, Math.min(slowness, LONGEST_PAUSE)));
    return !again;
  }

  async function whole(query) {
    const started = performance.now();
    abort = new AbortController();
    try {
      const response = await get(`/api/figure/${described.name}?${query}`, { signal: abort.signal });
      const body = await response.json();
      if (response.ok && !described.first) measured(body, started);
      receive(body, response.ok, query);
      slowness = performance.now() - started;
    } finally { abort = null; }
  }

  function measured(body, started) {
    root.dataset.milliseconds = (performance.now() - started).toFixed(1);
    root.dataset.seconds = body.seconds;
  }

  function receive(body, ok, query) {
    if (!ok) { output.fail(body.error.message, body.error.remedy); return; }
    const before = output.show(body);
    guesses.show(body.guess);
    const changed = settled && [...query].filter(([name, value]) => settled.get(name) !== value).map(([name]) => `${controls.find((c) => c.name === name).label} ${settled.get(name)}`);
    if (before && changed && changed.length) {
      earlier.unshift(`${changed.join(", ")} → ${before}`);
      earlier.length = Math.min(earlier.length, MOST_EARLIER);
      output.earlier.textContent = `Before: ${earlier.join(" · ")}`;
    }
    settled = query;
  }

  let seeds = [];
  if (described.seeded) {
    const redraw = element("button", { type: "button" }, "Draw again");
    redraw.addEventListener("click", () => {
      const seed = inputs.all.at(-1);
      seed.value = String(1 + (Number(seed.value) % SEED.high));
      inputs.write("pushState");
      ask(true);
    });
    buttons.append(redraw);
    seeds = [inputs.all.at(-1).root, element("span", { className: "note" }, "Seeded for this page, so that it can be repeated: not private.")];
    if (!details) buttons.append(...seeds);
  }
  if (described.action) {
    const act = element("button", { type: "button", className: "action" }, described.action.label);
    act.addEventListener("click", async () => {
      act.disabled = true;
      root.setAttribute("aria-busy", "true");
      try {
        const response = await post(`/api/action/${described.name}`, inputs.values);
        const body = await response.json();
        if (response.ok) { output.judge(body); document.dispatchEvent(new CustomEvent("explorer:acted", { detail: body })); } else output.fail(body.error.message, body.error.remedy);
        root.dataset.acted = Number(root.dataset.acted || 0) + 1;
      } catch { output.fail("The server does not answer.", "Start it again with: ferrodp explore"); }
      root.removeAttribute("aria-busy");
      act.disabled = false;
    });
    buttons.append(act);
  }
  if (details && (rest.length || seeds.length)) {
    const more = element("div", { className: "controls" }, ...rest.map((input) => input.root));
    const settings = element("details", { className: "settings" }, element("summary", {}, "More settings"), more, element("div", { className: "buttons" }, ...seeds));
    root.append(settings);
    // A link that sets one of them shows it.
    settings.open = rest.some((input) => new URLSearchParams(location.search).has(input.name) && input.value !== plain(input.control.default));
  }
  for (const button of document.querySelectorAll("[data-try]")) {
    button.addEventListener("click", () => {
      for (const [name, value] of Object.entries(JSON.parse(button.dataset.try))) named(name).value = value;
      inputs.dim();
      inputs.write("pushState");
      ask(true);
    });
  }
  ask(true);
}

// A question that comes before the answer: any choice shows the truth.
for (const question of document.querySelectorAll("section.question")) {
  const truth = question.querySelector(".truth");
  const options = [...question.querySelectorAll("[data-option]")];
  for (const option of options) {
    option.addEventListener("click", () => {
      const isRight = option.dataset.option === question.dataset.right;
      for (const each of options) each.setAttribute("aria-pressed", String(each === option));
      truth.textContent = `${isRight ? "Yes" : "Not quite"}. ${truth.dataset.truth}`;
    });
  }
}

for (const root of document.querySelectorAll("section[data-figure]")) mount(root);
