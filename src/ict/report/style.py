"""The style of a report: calm, readable on a phone, in light and dark mode, and for color-blind readers."""

STYLE = """
:root {
  --paper: #fcfcfa; --card: #ffffff; --ink: #22262b; --soft: #5f6770; --line: #e3e4e0;
  --first: #0072b2; --second: #c8540a; --third: #00795c;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #16181b; --card: #1e2125; --ink: #e6e7e8; --soft: #a3abb3; --line: #34383d;
    --first: #5cb8ee; --second: #f0a04b; --third: #4ccaa5;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body {
  margin: 0; background: var(--paper); color: var(--ink);
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif;
}
main { max-width: 96rem; margin: 0 auto; padding: 2.5rem clamp(1.25rem, 4vw, 4rem) 4rem; }
h1 { font-size: clamp(1.6rem, 1.2rem + 2vw, 2.4rem); line-height: 1.2; margin: 0 0 .75rem; font-weight: 650; }
h2 { font-size: 1.2rem; line-height: 1.3; margin: 0 0 .75rem; font-weight: 620; }
h3 { font-size: 1rem; margin: 1.5rem 0 .5rem; font-weight: 600; color: var(--soft); }
p { margin: 0 0 .75rem; max-width: 42rem; }
.kicker { color: var(--soft); letter-spacing: .04em; margin: 0 0 .25rem; }
section { margin-top: 3rem; padding-top: 1.5rem; border-top: 1px solid var(--line); }
ul { margin: 0; padding-left: 1.1rem; }
li { overflow-wrap: anywhere; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(14rem, 1fr)); gap: 1rem; margin-top: 1.75rem; }
.tile { background: var(--card); border: 1px solid var(--line); border-radius: .6rem; padding: 1rem 1.15rem; }
.tile h2 { font-size: .85rem; color: var(--soft); font-weight: 500; margin: 0; }
.tile .value { font-size: 1.7rem; line-height: 1.25; font-weight: 600; margin: .1rem 0 .3rem; overflow-wrap: anywhere; }
.tile .words { color: var(--soft); font-size: .875rem; line-height: 1.45; margin: 0; }
.interval { display: block; width: 100%; max-width: 16rem; height: auto; margin: .15rem 0 .5rem; }
.interval .track { stroke: var(--line); stroke-width: 4; stroke-linecap: round; }
.interval .span { stroke: var(--first); stroke-width: 4; stroke-linecap: round; opacity: .45; }
.interval .mark { stroke: var(--ink); stroke-width: 1.5; }
.interval circle { fill: var(--first); }
.gain { display: grid; grid-template-columns: 1fr auto 1fr; max-width: 16rem; color: var(--soft); font-size: .8rem; }
.gain svg { grid-column: 1 / -1; }
.gain span:last-child { text-align: right; }
.box { overflow: auto; max-width: 100%; max-height: 46rem; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
thead th { color: var(--soft); font-weight: 500; text-align: left; vertical-align: bottom; }
thead > tr > * { position: sticky; top: 0; z-index: 1; background: var(--paper); }
th, td { padding: .4rem 1rem .4rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
tbody tr:last-child > * { border-bottom: 0; }
table.numbers th:nth-child(n+2), table.numbers td:nth-child(n+2) { text-align: right; }
table.pairs td:last-child, table.pairs th:last-child { text-align: right; }
table.trials th, table.trials td { text-align: right; }
table.trials th:last-child, table.trials td:last-child { text-align: left; min-width: 12rem; padding-left: .5rem; }
tr.marked { background: color-mix(in srgb, var(--first) 14%, transparent); font-weight: 600; }
.name { display: block; width: max-content; max-width: 22rem; overflow-wrap: anywhere; }
.beside { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 36rem), 1fr)); gap: 1rem 3rem; }
.beside > * { min-width: 0; }
.beside h3:first-child { margin-top: 0; }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 18rem), 1fr)); gap: 1rem; }
.cards.photos { grid-template-columns: repeat(auto-fill, minmax(9.5rem, 1fr)); }
.card {
  background: var(--card); border: 1px solid var(--line); border-radius: .6rem; padding: .75rem; min-width: 0;
  font-size: .875rem; line-height: 1.4;
}
.card img { width: 100%; height: auto; aspect-ratio: 1; margin-bottom: .5rem; }
.card .text { font-size: 1rem; overflow-wrap: anywhere; margin-bottom: .5rem; }
.card .name { width: auto; max-width: 100%; }
.card .why { color: var(--soft); overflow-wrap: anywhere; }
img { display: block; image-rendering: pixelated; border-radius: .3rem; background: var(--line); object-fit: contain; }
.matrix { border-collapse: separate; border-spacing: 2px; font-size: .8rem; line-height: 1.2; }
.matrix th, .matrix td { border: 0; padding: 0; }
.matrix tbody td { min-width: 1.9rem; height: 1.9rem; text-align: center; vertical-align: middle; border-radius: .2rem;
  background: color-mix(in srgb, var(--line) 35%, transparent); }
.matrix td.right { background: color-mix(in srgb, var(--first) calc(12% + 48% * var(--share)), transparent); }
.matrix td.wrong { background: color-mix(in srgb, var(--second) calc(14% + 56% * var(--share)), transparent); }
.matrix th[scope=row] { position: sticky; left: 0; background: var(--paper); text-align: right; vertical-align: middle;
  padding-right: .5rem; font-weight: 400; }
.matrix th span { display: block; overflow-wrap: anywhere; }
.matrix th[scope=row] span { width: max-content; max-width: min(12rem, 28vw); }
.matrix thead td { left: 0; z-index: 2; }
.matrix th[scope=col] { text-align: center; vertical-align: bottom; font-weight: 400; }
.matrix th[scope=col] span {
  writing-mode: vertical-rl; transform: rotate(180deg); max-height: 9rem; margin: 0 auto .3rem;
}
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 25rem), 1fr)); gap: 1.75rem; }
.figures svg { display: block; width: 100%; max-width: 30rem; height: auto; }
.figures.wide { grid-template-columns: minmax(0, 1fr); }
.figures.wide svg { max-width: 44rem; }
figure { margin: 0; }
code { overflow-wrap: anywhere; }
.figures figcaption { color: var(--soft); font-size: .875rem; margin-top: .35rem; max-width: 30rem; }
.sheet { display: grid; grid-template-columns: repeat(auto-fill, minmax(4.25rem, 1fr)); gap: .9rem .75rem; }
.sheet img { width: 100%; height: auto; aspect-ratio: 1; }
.sheet figcaption { font-size: .8rem; line-height: 1.3; margin-top: .2rem; }
.sheet .name { width: auto; max-width: 100%; }
small { color: var(--soft); font-size: inherit; }
dl {
  display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: .35rem 1.25rem; margin: 0; font-size: .9rem;
}
dt { color: var(--soft); }
dd { margin: 0; overflow-wrap: anywhere; }
@media (max-width: 30rem) {
  main { padding-top: 1.5rem; }
  dl { grid-template-columns: minmax(0, 1fr); gap: 0; }
  dd { margin-bottom: .5rem; }
  .name { max-width: 11rem; }
}
@media (max-width: 44rem) {
  .box:has(> .stacked) { max-height: none; }
  .stacked, .stacked tbody { display: block; }
  .stacked thead { display: none; }
  .stacked tr { display: block; padding: .5rem 0; border-bottom: 1px solid var(--line); }
  table.stacked td { display: flex; justify-content: space-between; gap: 1.5rem; border: 0; padding: .15rem 0; }
  table.stacked td:not(:first-child) { text-align: right; overflow-wrap: anywhere; min-width: 0; }
  .stacked td:not(:first-child)::before {
    content: attr(data-label); color: var(--soft); font-weight: 400; white-space: nowrap;
  }
  .stacked td:first-child { font-weight: 600; }
  .stacked .name { max-width: 100%; width: auto; }
}
"""
