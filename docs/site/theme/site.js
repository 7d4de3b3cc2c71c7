// The search, the menu of narrow screens, the theme, and buttons that copy. Without it every page can be read and
// every link followed.
"use strict";

const EXCERPT_CHARACTERS = 160;

const root = document.body.dataset.root;
const input = document.querySelector(".search input");
const found = document.querySelector(".found");
let passages = null;

function load() {
  if (passages !== null) return;
  passages = [];
  const script = document.createElement("script");
  script.src = `${root}search-index.js`;
  script.onload = () => {
    passages = tenureSearch.prepare(window.tenureIndex);
    show();
  };
  document.head.append(script);
}

function excerpt(passage, words) {
  const places = words.map((word) => passage.lower[2].indexOf(word)).filter((at) => at >= 0);
  const from = Math.max(0, Math.min(...places, passage.text.length) - 40);
  const start = places.length === 0 ? 0 : from;
  return (start > 0 ? "…" : "") + passage.text.slice(start, start + EXCERPT_CHARACTERS);
}

/** Text with the words of the query marked, as nodes: nothing of a page is read as markup. */
function marked(text, words) {
  const parts = [];
  let rest = text;
  while (rest !== "") {
    const lower = rest.toLowerCase();
    const hits = words.map((word) => [lower.indexOf(word), word.length]).filter(([at]) => at >= 0);
    if (hits.length === 0) break;
    const [at, length] = hits.reduce((one, other) => (other[0] < one[0] ? other : one));
    const mark = document.createElement("mark");
    mark.textContent = rest.slice(at, at + length);
    parts.push(rest.slice(0, at), mark);
    rest = rest.slice(at + length);
  }
  return [...parts, rest];
}

function show() {
  const query = input.value.trim();
  found.replaceChildren();
  found.hidden = query === "" || passages.length === 0;
  if (found.hidden) return;
  const words = tenureSearch.wordsOf(query);
  for (const passage of tenureSearch.search(passages, query)) {
    const link = document.createElement("a");
    link.href = root + passage.address;
    const title = document.createElement("strong");
    title.textContent = passage.heading === "" ? passage.title : `${passage.title} › ${passage.heading}`;
    const text = document.createElement("span");
    text.append(...marked(excerpt(passage, words), words));
    link.append(title, text);
    found.append(link);
  }
  if (found.childElementCount === 0) found.textContent = "Nothing found.";
}

function move(event) {
  const links = [...found.querySelectorAll("a")];
  const at = links.indexOf(document.activeElement);
  if (event.key === "Escape") {
    input.value = "";
    show();
    input.blur();
  } else if (event.key === "ArrowDown" && links.length > 0) {
    event.preventDefault();
    links[Math.min(at + 1, links.length - 1)].focus();
  } else if (event.key === "ArrowUp" && at >= 0) {
    event.preventDefault();
    (at === 0 ? input : links[at - 1]).focus();
  }
}

input.addEventListener("focus", load);
input.addEventListener("input", show);
const form = document.querySelector(".search");
form.addEventListener("keydown", move);
form.addEventListener("submit", (event) => {
  event.preventDefault();
  found.querySelector("a")?.click();
});
document.addEventListener("click", (event) => {
  if (!form.contains(event.target)) found.hidden = true;
});
document.addEventListener("keydown", (event) => {
  const isTyping = event.target.closest("input, textarea") !== null;
  if (event.key === "/" && !isTyping && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    input.focus();
  }
});

const menu = document.querySelector(".menu");
menu.addEventListener("click", (event) => {
  event.preventDefault();
  const isOpen = document.body.classList.toggle("menu-open");
  menu.setAttribute("aria-expanded", String(isOpen));
});

document.querySelector(".theme").addEventListener("click", () => {
  const isDark = document.documentElement.dataset.theme
    ? document.documentElement.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  const chosen = isDark ? "light" : "dark";
  document.documentElement.dataset.theme = chosen;
  try {
    localStorage.setItem("tenure-theme", chosen);
  } catch {
    // It holds for this page then.
  }
});

for (const block of document.querySelectorAll("pre.code")) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    // Of a session in a terminal only what is typed is copied.
    const prompts = block.querySelectorAll(".gp");
    const lines = block.querySelector("code").textContent.split("\n");
    const typed = lines.filter((line) => line.startsWith("$ ")).map((line) => line.slice(2));
    await navigator.clipboard.writeText(prompts.length > 0 && typed.length > 0 ? typed.join("\n") : lines.join("\n"));
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
  block.append(button);
}

// Only the list of pages is scrolled, and never the page.
const side = document.querySelector(".side");
const here = side.querySelector("[aria-current=page]");
if (here !== null) side.scrollTop = Math.max(0, here.offsetTop - side.offsetTop - side.clientHeight / 2);
