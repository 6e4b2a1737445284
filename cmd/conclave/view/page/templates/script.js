"use strict";
const $ = (id) => document.getElementById(id);
const all = (selector, root = document) => [...root.querySelectorAll(selector)];

document.documentElement.classList.add("js");

// The theme: as the system, or the other one.
let theme = "";
try { theme = localStorage.getItem("theme") ?? ""; } catch { /* a page on disk may have no storage */ }
function dress() { document.documentElement.dataset.theme = theme; }
function changeTheme() {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  theme = theme ? "" : dark ? "light" : "dark";
  try { localStorage.setItem("theme", theme); } catch { /* it holds for this page */ }
  dress();
}
dress();

// Times in the reader's zone, and how long ago they are.
const clock = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const since = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
function ago(at) {
  let n = (at - Date.now()) / 1000, unit = "second";
  for (const [size, next] of [[60, "minute"], [60, "hour"], [24, "day"], [30, "month"], [12, "year"]]) {
    if (Math.abs(n) < size) break;
    n /= size; unit = next;
  }
  return since.format(Math.round(n), unit);
}
function localTimes(root) {
  for (const t of all("time[datetime]", root)) {
    const at = new Date(t.dateTime);
    if (isNaN(at)) continue;
    t.title = t.className ? clock.format(at) : t.dateTime;
    t.textContent = t.className ? ago(at) : clock.format(at);
  }
}

// A link to a folded part opens it.
function reveal() {
  let el;
  try { el = $(decodeURIComponent(location.hash.slice(1))); } catch { return; }
  if (!el) return;
  for (let at = el; at; at = at.parentElement) {
    if (at.tagName === "DETAILS") at.open = true;
    if (at.classList.contains("panel") && $("tab-" + at.id)) $("tab-" + at.id).checked = true;
    if (at.classList.contains("fold")) at.querySelector("details").open = true;
  }
  el.scrollIntoView();
}

// Parts that a live page loads when they are opened.
async function load(el) {
  if (!el.dataset || !el.dataset.source) return;
  const into = el.querySelector(".load");
  try {
    const reply = await fetch(el.dataset.source, { headers: { Accept: "text/html" } });
    const text = await reply.text();
    if (reply.ok && into.innerHTML !== text) into.innerHTML = text;
    if (!reply.ok) into.textContent = text;
    localTimes(into);
    outline();
  } catch { into.textContent = "It cannot be loaded: the server does not answer."; }
}

// Compare: a line diff of two texts by their longest common subsequence.
function diff(a, b) {
  const x = a.replace(/\n+$/, "").split("\n"), y = b.replace(/\n+$/, "").split("\n");
  let head = 0, tail = 0;
  while (head < x.length && head < y.length && x[head] === y[head]) head++;
  while (tail < x.length - head && tail < y.length - head && x[x.length - 1 - tail] === y[y.length - 1 - tail]) tail++;
  const n = x.length - head - tail, m = y.length - head - tail, lines = [];
  for (let i = 0; i < head; i++) lines.push(["same", " ", x[i]]);
  if (n * m > 4e6) {
    for (let i = 0; i < n; i++) lines.push(["del", "−", x[head + i]]);
    for (let j = 0; j < m; j++) lines.push(["add", "+", y[head + j]]);
  } else {
    const best = Array.from({ length: n + 1 }, () => new Uint32Array(m + 1));
    for (let i = n - 1; i >= 0; i--) for (let j = m - 1; j >= 0; j--)
      best[i][j] = x[head + i] === y[head + j] ? best[i + 1][j + 1] + 1 : Math.max(best[i + 1][j], best[i][j + 1]);
    let i = 0, j = 0;
    while (i < n || j < m) {
      if (i < n && j < m && x[head + i] === y[head + j]) { lines.push(["same", " ", x[head + i]]); i++; j++; }
      else if (j >= m || (i < n && best[i + 1][j] >= best[i][j + 1])) lines.push(["del", "−", x[head + i++]]);
      else lines.push(["add", "+", y[head + j++]]);
    }
  }
  for (let i = x.length - tail; i < x.length; i++) lines.push(["same", " ", x[i]]);
  return lines;
}
function drawn(lines) {
  const pre = document.createElement("pre");
  pre.className = "diff";
  for (const [kind, sign, text] of lines) {
    const span = pre.appendChild(document.createElement("span"));
    span.className = kind;
    span.textContent = sign + " " + text + "\n";
  }
  return pre;
}
const filesOf = (label) => new Map(all("li[data-path]", $("answer-" + label)).map((li) => [li.dataset.path, li.dataset.content]));
async function content(id) {
  const lazy = $("f-" + id);
  if (lazy && lazy.dataset.source && !$(id)) await load(lazy);
  return $(id);
}
async function compare() {
  const out = $("differences"), left = $("left"), right = $("right");
  if (!out || !left || !$("text-" + left.value) || !$("text-" + right.value)) return;
  const list = document.createElement("ul"), before = filesOf(left.value), after = filesOf(right.value);
  list.className = "changes";
  for (const path of [...new Set([...before.keys(), ...after.keys()])].sort()) {
    const a = before.get(path), b = after.get(path), li = document.createElement("li");
    li.className = !a ? "added" : !b ? "removed" : a === b ? "same" : "changed";
    let body;
    if (li.className === "changed") {
      const x = await content(a), y = await content(b);
      if (x && y) { body = drawn(diff(x.textContent, y.textContent)); if (x.textContent === y.textContent) li.className = "same"; }
    }
    const only = !a ? right.value : !b ? left.value : "";
    li.textContent = path + " " + (only && left.form.hasAttribute("data-based") ? "changed in " + only + " only" : li.className);
    if (body && li.className === "changed") li.append(body);
    list.append(li);
  }
  out.replaceChildren(drawn(diff($("text-" + left.value).textContent, $("text-" + right.value).textContent)), list);
}

// Search.
function find(words) {
  const wanted = words.toLowerCase().trim();
  let hits = 0;
  for (const el of all("details.step, details.one")) {
    el.hidden = wanted !== "" && !el.textContent.toLowerCase().includes(wanted);
    if (!el.hidden) hits++;
  }
  $("matches").textContent = wanted ? hits + " found" : "";
}
async function copy(button) {
  const text = $(button.dataset.copy);
  if (!text) return;
  try { await navigator.clipboard.writeText(text.textContent); }
  catch { const range = document.createRange(); range.selectNodeContents(text); const s = getSelection(); s.removeAllRanges(); s.addRange(range); document.execCommand("copy"); }
  button.textContent = "Copied";
}

// The outline of the steps, with the parts of open ones.
function outline() {
  const list = $("step-list"), nav = $("outline");
  const enough = 12; // fewer steps need an outline only beside an open one
  if (!list || !nav) return;
  nav.hidden = list.children.length <= enough && !list.querySelector(":scope > [open]");
  if (nav.hidden) return;
  const links = [];
  const add = (to, text, kind) => { const a = document.createElement("a"); a.href = "#" + to.id; a.textContent = text; a.className = kind; links.push(a); };
  for (const step of list.children) {
    const head = step.querySelector("summary").cloneNode(true);
    for (const rest of all(".spent, .dot, .chip", head)) rest.remove();
    add(step, head.textContent.trim(), step.open ? "open" : "");
    if (step.open) all(".entry", step).forEach((entry, i) => { entry.id ||= step.id + "-" + i; add(entry, entry.querySelector("h3").firstChild.textContent, "part"); });
  }
  nav.replaceChildren(...links);
}

// The tab of the section that is read is marked.
const tabs = () => all(".tabs a").map((a) => [a, $(a.hash.slice(1))]).filter(([, section]) => section);
function markTab() {
  let here = null;
  for (const [a, section] of tabs()) if (section.getBoundingClientRect().top < innerHeight / 3 && section.offsetParent) here = a;
  for (const [a] of tabs()) a.classList.toggle("here", a === here);
}
let marking;
addEventListener("scroll", () => { marking ||= requestAnimationFrame(() => { marking = 0; markTab(); }); }, { passive: true });

// Keys.
function step(by) {
  if ($("all-steps")) $("all-steps").open = true;
  const steps = all("#step-list > details:not([hidden]) > summary");
  const next = steps[Math.max(0, Math.min(steps.length - 1, steps.indexOf(document.activeElement) + by))];
  if (next) { next.focus(); next.scrollIntoView({ block: "center" }); }
}
const keys = {
  j: () => step(1), k: () => step(-1), t: changeTheme, "?": () => $("help").showModal(),
  "/": () => { if ($("all-steps")) $("all-steps").open = true; $("search").focus(); }, c: () => { const b = document.querySelector("#decision .copy"); if (b) copy(b); },
};
document.addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || e.target.matches("input:not([type=checkbox]),select,textarea")) return;
  if (keys[e.key] && $("step-list")) { e.preventDefault(); keys[e.key](); }
});
document.addEventListener("click", (e) => {
  const b = e.target.closest("button");
  if (b?.classList.contains("copy")) copy(b);
  if (b?.id === "theme") changeTheme();
  const inner = e.target.closest('a[href^="#"]');
  if (inner && inner.hash === location.hash) reveal();
});
document.addEventListener("toggle", (e) => { if (e.target.open) load(e.target); if (e.target.classList?.contains("step")) outline(); if (e.target.open && e.target.id === "all-compared") compare(); }, true);
document.addEventListener("submit", (e) => { for (const b of all("button", e.target)) setTimeout(() => { b.disabled = true; }); });
document.addEventListener("change", (e) => {
  if (e.target.id === "only") $("differences").classList.toggle("only", e.target.checked);
  else if (e.target.closest("[data-compare]")) compare();
});
document.addEventListener("input", (e) => { if (e.target.id === "search" && $("matches")) find(e.target.value); });
addEventListener("hashchange", reveal);

// Live: the server sends the parts that changed. What a reader has opened or typed stays.
function replace(part) {
  const box = document.createElement("template"), old = $(part.id);
  const drawing = (old || $(part.parent)) instanceof SVGElement;
  box.innerHTML = drawing ? "<svg>" + part.html + "</svg>" : part.html;
  const fresh = drawing ? box.content.firstElementChild.firstElementChild : box.content.firstElementChild;
  if (!old) { const parent = $(part.parent); if (parent) parent.append(fresh); localTimes(fresh); offer(fresh.dataset.label); return; }
  const focus = old.contains(document.activeElement) && document.activeElement.id;
  for (const kept of all("details[id]", old)) { const d = fresh.querySelector("#" + CSS.escape(kept.id)); if (d) { d.open = kept.open; if (d.open) carry(kept, d); } }
  if (old.open) { fresh.open = true; carry(old, fresh); }
  for (const field of all("input[id], select[id], textarea[id]", old)) {
    const f = fresh.querySelector("#" + CSS.escape(field.id));
    if (f && (field.type === "checkbox" || field.type === "radio")) f.checked = field.checked; else if (f) f.value = field.value;
  }
  localTimes(fresh);
  old.replaceWith(fresh);
  if (focus && $(focus)) $(focus).focus({ preventScroll: true });
  if (part.id === "compare" && $("all-compared").open) compare();
}
function offer(label) {
  for (const pick of [$("left"), $("right")]) if (label && pick && ![...pick.options].some((o) => o.value === label)) pick.append(new Option(label));
}
function carry(from, to) {
  const a = from.querySelector(".load"), b = to.querySelector(".load");
  const said = from.querySelector(".said"), silent = to.querySelector(".said");
  if (said && silent) silent.replaceWith(said);
  if (a && b && to.dataset.source) { b.replaceWith(a); load(to); }
}
// A browser has few connections to a server: a hidden page gives its own back, and catches up when it is shown.
let source, news = document.body.dataset.events;
function follow() {
  source?.close();
  if (!news || document.hidden) return;
  source = new EventSource(news);
  source.onmessage = (e) => {
    for (const part of JSON.parse(e.data)) replace(part);
    news = news.replace(/since=.*/, "since=" + e.lastEventId);
    outline();
    markTab();
    document.body.classList.remove("away");
  };
  source.addEventListener("end", () => { news = ""; source.close(); });
  source.onerror = () => document.body.classList.add("away");
}
document.addEventListener("visibilitychange", follow);
follow();
localTimes(document);
outline();
markTab();
reveal();
