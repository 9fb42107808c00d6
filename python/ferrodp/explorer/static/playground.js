// The playground: a training in a process of its own, streamed as server-sent events. Closing the page ends it.

import { Inputs, Output, SEED, element, post } from "./figure.js";

const RESTS = 600;  // milliseconds after which a setting that was let go starts its training

const root = document.querySelector("section[data-playground]");
if (root) mount(root);

function mount(root) {
  const described = JSON.parse(root.querySelector("script").textContent);
  const form = element("form", { className: "controls main", noValidate: true });
  form.addEventListener("submit", (event) => event.preventDefault());
  const inputs = new Inputs([...described.controls, SEED], (isFinal) => settle(isFinal));
  const isMain = (input) => described.main.includes(input.name);
  form.append(...described.main.map((name) => inputs.all.find((input) => input.name === name).root));
  const more = element("div", { className: "controls" }, ...inputs.all.filter((input) => !isMain(input)).map((input) => input.root));

  // The noise follows from a target ε, or is given: the other of both is no input.
  function onlyOne() {
    for (const input of inputs.all) {
      if (input.name === "epsilon") input.root.hidden = inputs.values.noise_by !== "epsilon";
      if (input.name === "noise_multiplier") input.root.hidden = inputs.values.noise_by !== "noise";
    }
  }

  const button = (label, action, extra = {}) => { const b = element("button", { type: "button", ...extra }, label); b.addEventListener("click", action); return b; };
  const train = button("Train", () => (state === "paused" ? command("resume") : begin("run")), { className: "primary" });
  const pause = button("Pause", () => command("pause"));
  const step = button("Step", () => (state === "idle" || state === "ended" ? begin("step") : command("step")));
  const reset = button("Reset", () => clear());
  const again = button("Draw again", () => { const seed = inputs.all.at(-1); seed.value = String(1 + (Number(seed.value) % SEED.high)); inputs.write("pushState"); settle(true); });
  const bar = element("progress", { max: 1, value: 0, "aria-label": "Steps taken" });
  const place = element("span", { className: "note", role: "status" });
  const buttons = element("div", { className: "buttons" }, train, pause, step, reset, again, bar, place,
    element("span", { className: "note" }, "Seeded for this page, so that it can be repeated: not private."));
  const output = new Output(root, "playground", { actions: [buttons], details: document.querySelector("[data-details]"), form });
  root.append(element("details", { className: "settings" }, element("summary", {}, "More settings"), more));

  let state = "idle", name = null, abort = null, asked = 0;
  show("idle");

  function show(next) {
    state = next;
    root.dataset.state = next;
    const running = next === "running" || next === "starting";
    pause.disabled = next !== "running";
    train.disabled = running || !inputs.valid;
    step.disabled = running || !inputs.valid;
    reset.disabled = next === "idle";
    train.textContent = next === "paused" ? "Go on" : "Train";
    bar.hidden = next === "idle";
  }

  // Other settings are another training: what is running ends, and the new one begins when the slider rests.
  let rests = null;
  function settle(isFinal) {
    onlyOne();
    if (state !== "idle") clear(); else preview();
    show(state);
    root.classList.toggle("failed", !inputs.valid); // what is shown is no answer to these inputs
    clearTimeout(rests);
    if (isFinal && inputs.valid) rests = setTimeout(() => { if (state === "idle") begin("run"); }, RESTS);
  }

  function clear() {
    clearTimeout(rests);
    abort?.abort();
    abort = name = null;
    show("idle");
    place.textContent = "";
    preview();
  }

  // What the plan will be, before a step is taken: the cost is known without any data.
  async function preview() {
    const mine = ++asked; // what was asked before is no answer any more, also if nothing is asked now
    if (!inputs.valid) return;
    try {
      const response = await fetch(`/api/figure/playground?${new URLSearchParams(inputs.values)}`);
      const body = await response.json();
      if (mine !== asked || state !== "idle") return;
      if (response.ok) output.show(body); else output.fail(body.error.message, body.error.remedy);
      root.dataset.count = Number(root.dataset.count || 0) + 1;
    } catch { output.fail("The server does not answer.", "Start it again with: ferrodp explore"); }
  }

  async function begin(mode) {
    abort?.abort();
    const mine = (abort = new AbortController());
    name = null;
    show("starting");
    place.textContent = "Starting a process …";
    delete root.dataset.first;
    try {
      const response = await fetch("/api/train", {
        method: "POST", signal: mine.signal, body: JSON.stringify({ ...inputs.values, mode }),
        headers: { "content-type": "application/json", "x-ferrodp-token": document.querySelector("meta[name=token]").content },
      });
      if (!response.ok) { const body = await response.json(); output.fail(body.error.message, body.error.remedy); place.textContent = ""; show("idle"); return; }
      for await (const message of events(response.body)) if (mine === abort) receive(message, mode);
      if (mine === abort && state !== "ended") { place.textContent = "The training ended early."; show("ended"); }
    } catch (error) {
      if (error.name !== "AbortError" && mine === abort) { output.fail("The connection to the server was lost.", "Reload the page."); show("idle"); }
    }
  }

  function receive(message, mode) {
    if (message.type === "started") { name = message.name; return; }
    output.show(message.answer);
    root.dataset.count = Number(root.dataset.count || 0) + 1;
    bar.max = message.num_steps;
    bar.value = message.step;
    place.textContent = `Step ${message.step} of ${message.num_steps}`;
    root.dataset.step = message.step;
    root.dataset.first ??= performance.now().toFixed(0);
    if (message.type === "end") show("ended");
    else if (state === "starting") show(mode === "step" ? "paused" : "running");
  }

  async function command(what) {
    if (!name) return;
    const mine = abort;
    await post(`/api/train/${name}/${what}`, {});
    if (mine !== abort || state === "ended") return; // it ended while the command was on its way
    if (what === "pause") show("paused");
    if (what === "resume") show("running");
  }

  onlyOne();
  preview();
  begin("run");
}

// Server-sent events of a response; the browser's own EventSource can send no token.
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) {
      const event = text.slice(0, end);
      if (event.startsWith("data: ")) yield JSON.parse(event.slice(6));
    }
  }
}
