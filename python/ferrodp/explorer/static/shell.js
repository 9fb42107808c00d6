// What every page has: theme, progress through the lessons, links that keep the state, the hook for embedders.

import "./figure.js";

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
