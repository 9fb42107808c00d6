// What every page has: theme, progress through the lessons, links that keep the state, the hook for embedders.

import "./figure.js";
import "./playground.js";

const store = {
  read(key) { try { return localStorage.getItem(`ferrodp.${key}`); } catch { return null; } },
  write(key, value) { try { localStorage.setItem(`ferrodp.${key}`, value); } catch { /* private windows have no storage */ } },
};

const theme = document.querySelector("[data-theme-toggle]");
const isDark = () => (document.documentElement.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
function showTheme() { theme.setAttribute("aria-pressed", String(isDark())); }
if (store.read("theme")) document.documentElement.dataset.theme = store.read("theme");
showTheme();
theme.addEventListener("click", () => {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  store.write("theme", document.documentElement.dataset.theme);
  showTheme();
});

// Lecture mode: large, and led by keys that presenters' remotes send. Other keys keep their meaning.
const lecture = document.querySelector("[data-lecture-toggle]");
function showLecture(on) {
  document.documentElement.toggleAttribute("data-lecture", on);
  lecture.setAttribute("aria-pressed", String(on));
}
showLecture(store.read("lecture") === "on");
lecture.addEventListener("click", () => {
  const on = lecture.getAttribute("aria-pressed") !== "true";
  store.write("lecture", on ? "on" : "off");
  showLecture(on);
});
addEventListener("keydown", (event) => {
  if (!document.documentElement.hasAttribute("data-lecture") || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
  if (event.target.closest("input, select, textarea, pre, .scroll")) return;
  const wanted = { ArrowRight: "next", PageDown: "next", ArrowLeft: "prev", PageUp: "prev" }[event.key];
  const link = wanted && document.querySelector(`nav.steps a[rel="${wanted}"]`);
  if (link) { event.preventDefault(); link.click(); }
});

// Where there is no room beside a page, the list of its section is behind a button.
const menu = document.querySelector("nav.side .menu");
if (menu) {
  const open = (yes) => menu.setAttribute("aria-expanded", String(yes));
  menu.addEventListener("click", () => open(menu.getAttribute("aria-expanded") !== "true"));
  menu.parentElement.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && menu.getAttribute("aria-expanded") === "true") { open(false); menu.focus(); }
  });
  menu.parentElement.addEventListener("focusout", (event) => { if (!menu.parentElement.contains(event.relatedTarget)) open(false); });
}

// Links to other figures of the same section keep the inputs that they share.
function keepState() {
  for (const link of document.querySelectorAll("nav.side a, nav.steps a, a[data-keep]")) {
    const address = new URL(link.href);
    const section = document.querySelector("article[data-section]")?.dataset.section;
    link.search = section === "learn" ? "" : location.search;
    if (address.pathname === location.pathname) link.search = location.search;
  }
}
document.addEventListener("explorer:state", keepState);
addEventListener("popstate", keepState);
keepState();

// For embedders: called with the name and number of a lesson when it is opened; does nothing by default.
window.ferrodpExplorer = Object.assign({ onLessonOpen() {} }, window.ferrodpExplorer);
const lesson = document.querySelector('article[data-section="learn"]');
if (lesson) {
  const step = { name: lesson.dataset.entry, number: Number(lesson.dataset.number) };
  document.dispatchEvent(new CustomEvent("learning_step_open", { detail: step }));
  window.ferrodpExplorer.onLessonOpen(step);
  let seen;
  try { seen = new Set(JSON.parse(store.read("seen") || "[]")); } catch { seen = new Set(); }
  seen.add(step.name);
  store.write("seen", JSON.stringify([...seen]));
  for (const link of document.querySelectorAll("nav.side a")) {
    if (seen.has(link.dataset.entry)) {
      link.dataset.seen = "";
      const mark = document.createElement("span");
      mark.className = "visually-hidden";
      mark.textContent = " (opened before)";
      if (link.getAttribute("aria-current") !== "page") link.append(mark);
    }
  }
}

// The exam keeps which questions were answered rightly on this machine, and shows how many.
const exam = document.querySelector('article[data-section="exam"]');
if (exam) {
  let right;
  try { right = new Set(JSON.parse(store.read("right") || "[]")); } catch { right = new Set(); }
  const links = [...document.querySelectorAll("nav.side a")];
  const score = document.createElement("p");
  score.className = "score";
  score.setAttribute("role", "status");
  exam.querySelector("section.figure").before(score);
  const missed = new Set();  // numbers whose answer was shown: others have to be drawn for a point
  const drawn = () => new URLSearchParams(location.search).get("seed") ?? "1";
  const show = () => {
    const names = links.filter((link) => right.has(link.dataset.entry));
    for (const link of links) link.toggleAttribute("data-seen", right.has(link.dataset.entry));
    score.textContent = `${names.length} of ${links.length} questions answered rightly.`;
  };
  show();
  document.addEventListener("explorer:acted", (event) => {
    const isRight = event.detail.sentence.startsWith("Right");
    if (!isRight) missed.add(drawn());
    else if (!missed.has(drawn())) right.add(exam.dataset.entry);
    store.write("right", JSON.stringify([...right]));
    show();
    if (missed.has(drawn())) score.textContent += " The answer to these numbers was shown: draw again for a point.";
    else if (right.size === links.length) score.textContent += " All of them: you can read a claim of privacy.";
  });
}
