"""Template, style and script of `report.html`."""

from __future__ import annotations

TEMPLATE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>$title</title>
<style>$style</style>
</head>
<body>
<header><div><h1>$title</h1><p>$subtitle</p></div></header>
<nav aria-label="sections"><div>$links</div></nav>
<main>
$body
</main>
<dialog id="large" aria-label="enlarged picture"><img alt=""></dialog>
<script>$script</script>
</body>
</html>
"""

STYLE = """
:root {
  --ink: #1f2733; --soft: #5c6776; --paper: #f5f6f8; --card: #fff; --line: #dfe3e9;
  --accent: #3b6fd4; --stripe: #f8f9fb;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ink: #e3e7ee; --soft: #98a3b3; --paper: #12161c; --card: #1b2028; --line: #2e3642;
    --accent: #7aa5f5; --stripe: #20262f;
  }
}
* { box-sizing: border-box; }
html { scroll-padding-top: 3.5rem; }
body {
  margin: 0; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
}
header > div, nav > div, main { max-width: 1240px; margin: 0 auto; padding: 0 1.5rem; }
header { padding: 1.75rem 0 0.75rem; }
h1 { font-size: 1.6rem; margin: 0; letter-spacing: -0.01em; overflow-wrap: anywhere; }
header p { margin: 0.15rem 0 0; color: var(--soft); overflow-wrap: anywhere; }
nav {
  position: sticky; top: 0; z-index: 2; background: var(--paper);
  border-bottom: 1px solid var(--line);
}
nav > div { display: flex; gap: 1.25rem; overflow-x: auto; scrollbar-width: none; }
nav a {
  color: var(--soft); text-decoration: none; padding: 0.6rem 0; white-space: nowrap;
  font-size: 0.9rem;
}
nav a:hover { color: var(--accent); }
section {
  background: var(--card); border: 1px solid var(--line); border-radius: 12px;
  padding: 1.25rem 1.5rem 1.5rem; margin: 1.25rem 0;
}
h2 { font-size: 1.15rem; margin: 0; }
h3 { font-size: 0.95rem; margin: 1.5rem 0 0.5rem; }
.text { color: var(--soft); margin: 0.35rem 0 0; max-width: 80ch; }
.note, small { color: var(--soft); font-size: 0.83rem; font-weight: 400; }
.note { margin: 0.5rem 0 0; max-width: 90ch; }
.tiles {
  display: grid; grid-template-columns: repeat(auto-fill, minmax(150px, 1fr)); gap: 0.75rem;
  margin-top: 1rem;
}
.tile {
  border: 1px solid var(--line); border-radius: 10px; padding: 0.7rem 0.9rem;
  background: var(--stripe);
  display: flex; flex-direction: column;
}
.tile span { color: var(--soft); font-size: 0.83rem; }
.tile b { font-size: 1.5rem; line-height: 1.3; font-variant-numeric: tabular-nums; }
.figures { display: flex; flex-wrap: wrap; gap: 1.5rem 2rem; margin-top: 1.25rem; }
figure { margin: 0; min-width: 0; }
.figures figure { flex: 0 1 var(--width); max-width: 100%; }
figcaption {
  font-weight: 600; font-size: 0.95rem; margin-bottom: 0.4rem; overflow-wrap: anywhere;
}
figcaption small { display: block; }
.drawing { overflow-x: auto; }
.drawing svg { display: block; width: 100%; height: auto; min-width: calc(var(--width) * 0.6); }
.scroll:focus-visible { outline: 2px solid var(--accent); }
.scroll {
  overflow: auto; max-height: 30rem; border: 1px solid var(--line); border-radius: 8px;
  width: fit-content; max-width: 100%;
}
table { border-collapse: separate; border-spacing: 0; font-size: 0.88rem; }
th, td { padding: 0.4rem 0.65rem; text-align: left; white-space: nowrap; }
th {
  position: sticky; top: 0; background: var(--card); border-bottom: 1px solid var(--line);
  white-space: normal; vertical-align: bottom;  /* narrow columns: all fit on a laptop */
}
th:first-child, td:first-child { position: sticky; left: 0; background: var(--card); }
th:first-child { z-index: 1; }
tbody tr:nth-child(even) td { background: var(--stripe); }
tbody tr:hover td { color: var(--accent); }
th button {
  all: unset; cursor: pointer; font-weight: 600; color: var(--soft); display: block; width: 100%;
}
th button:focus-visible, .zoom:focus-visible { outline: 2px solid var(--accent); }
th button::after { content: "\\2195"; opacity: 0.35; margin-left: 0.35em; font-size: 0.8em; }
th[aria-sort="ascending"] button::after { content: "\\2191"; opacity: 1; }
th[aria-sort="descending"] button::after { content: "\\2193"; opacity: 1; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
.none { color: var(--soft); }
.cards {
  display: grid; grid-template-columns: repeat(auto-fill, minmax(340px, 1fr)); gap: 1rem;
  margin-top: 1rem;
}
.card {
  border: 1px solid var(--line); border-radius: 10px; overflow: hidden; background: var(--stripe);
}
.card figcaption {
  padding: 0.6rem 0.9rem 0.75rem; font-size: 0.83rem; margin: 0; font-weight: 400;
}
.card b { overflow-wrap: anywhere; }
.card ul {
  margin: 0.2rem 0 0; padding-left: 1.1rem; color: var(--soft); max-height: 8.5rem; overflow: auto;
}
.zoom { all: unset; cursor: zoom-in; display: block; }
.zoom img { display: block; width: 100%; height: auto; }
.files { margin: 0; padding-left: 1.1rem; font-size: 0.9rem; }
.files a { color: var(--accent); }
dialog { border: 0; padding: 0; background: none; max-width: 98vw; max-height: 98vh; }
dialog::backdrop { background: rgb(0 0 0 / 0.75); }
dialog img { display: block; max-width: 98vw; max-height: 96vh; cursor: zoom-out; }
@media (max-width: 640px) {
  header > div, nav > div, main { padding: 0 0.75rem; }
  section { padding: 1rem; border-radius: 10px; margin: 0.75rem 0; }
  .cards { grid-template-columns: 1fr; }
  .tiles { grid-template-columns: repeat(2, 1fr); }
  th, td { padding: 0.4rem 0.6rem; }
  th:first-child, td:first-child {
    white-space: normal; overflow-wrap: break-word; max-width: 45vw;
  }
}
@media print {
  nav { display: none; } section { break-inside: avoid; } .scroll { max-height: none; }
}
"""

SCRIPT = """
'use strict';
const key = (row, column) => {
  const cell = row.cells[column];
  if (cell.dataset.value === undefined) return cell.textContent.toLowerCase();
  return cell.dataset.value === '' ? null : Number(cell.dataset.value);
};
for (const button of document.querySelectorAll('th button')) {
  button.addEventListener('click', () => {
    const head = button.parentElement, body = head.closest('table').tBodies[0];
    const column = head.cellIndex, rows = [...body.rows];
    const numbers = rows.some(row => typeof key(row, column) === 'number');
    const first = numbers ? 'descending' : 'ascending';
    const second = numbers ? 'ascending' : 'descending';
    const order = head.getAttribute('aria-sort') === first ? second : first;
    for (const other of head.parentElement.cells) other.setAttribute('aria-sort', 'none');
    head.setAttribute('aria-sort', order);
    const sign = order === 'ascending' ? 1 : -1;
    rows.sort((a, b) => {
      const [x, y] = [key(a, column), key(b, column)];
      if (x === null || y === null) return (x === null) - (y === null);
      return x < y ? -sign : x > y ? sign : 0;
    });
    body.append(...rows);
  });
}
const large = document.getElementById('large');
for (const button of document.querySelectorAll('.zoom')) {
  button.addEventListener('click', () => {
    const [shown, small] = [large.firstElementChild, button.firstElementChild];
    [shown.src, shown.alt] = [small.src, small.alt];
    large.setAttribute('aria-label', small.alt);
    large.showModal();
  });
}
large.addEventListener('click', () => large.close());
"""
