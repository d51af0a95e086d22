"""The look of a page, on a screen, light and dark, and on paper."""

STYLE = """
:root { color-scheme: light dark; --line: #8886; --soft: #8882; --grid: #8884;
  --link: #00558a; }
@media (prefers-color-scheme: dark) { :root { --link: #7cc4f2; } }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 72rem;
  padding: 1rem; }
p, dl { max-width: 52rem; }
h1 { font-size: 1.6rem; line-height: 1.2; }
h2 { font-size: 1.3rem; margin-top: 2.5rem; }
h3 { font-size: 1.1rem; margin-top: 2rem; }
h1, h2, h3, p { overflow-wrap: anywhere; }
.title { font-size: .95rem; font-weight: 600; margin: 1rem 0 .3rem; }
a { color: var(--link); }
:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
.skip { position: absolute; left: -100vw; background: Canvas; padding: .5rem; }
.skip:focus { left: 1rem; top: 1rem; z-index: 1; }
nav ul { columns: 16rem; padding: 0; margin: .5rem 0; list-style: none; }
nav li { break-inside: avoid; overflow-wrap: anywhere; }
nav .inner { margin-left: 1rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .95rem; min-width: 50%;
  font-variant-numeric: tabular-nums; }
caption { text-align: left; padding: .35rem .45rem; font-size: .9rem; }
th, td { padding: .35rem .45rem; text-align: right; white-space: nowrap; }
thead th { border-bottom: 2px solid var(--line); vertical-align: bottom; }
th[scope=row] { font-weight: 400; } .word { text-align: left; }
thead .above th { text-align: left; border-left: 2px solid var(--line); }
thead .above > * { border-bottom: 0; }
tr.first > * { border-top: 1px solid var(--line); }
.heat th[scope=row] { position: sticky; left: 0; background: Canvas; }
.heat td { min-width: 2.2rem; } .heat .edge { border-left: 2px solid var(--line); }
.note { font-size: .9rem; }
figure { margin: 1rem 0; border: 1px solid var(--line); border-radius: .5rem;
  padding: .5rem; }
figure svg, figure img { display: block; max-width: 100%; height: auto;
  min-width: 30rem; margin: auto; }
figure svg text { fill: currentColor; } figure img { background: #fff; }
figcaption { padding: .5rem; font-size: .9rem; }
pre { background: var(--soft); padding: .8rem; border-radius: .5rem; margin: 0;
  white-space: pre-wrap; overflow-wrap: anywhere; }
.strip { display: flex; flex-wrap: wrap; gap: .6rem; }
.picture { width: 6rem; font-size: .8rem; line-height: 1.3; overflow-wrap: anywhere; }
.picture span { display: block; }
.picture img { width: 100%; image-rendering: pixelated; border: 1px solid var(--line); }
dl { display: grid; grid-template-columns: fit-content(40%) 1fr; gap: .2rem 1rem; }
dt { font-weight: 600; overflow-wrap: anywhere; }
dd { margin: 0; overflow-wrap: anywhere; }
@media print {
  :root { color-scheme: light; }
  body { max-width: none; font-size: 11pt; padding: 0; }
  nav, .skip { display: none; }
  .scroll { overflow: visible; }
  table { font-size: 8pt; } th, td { padding: .15rem .25rem; }
  .heat th[scope=row] { position: static; }
  details::details-content { content-visibility: visible; }
  figure svg, figure img { min-width: 0; }
  figure, tr, .picture, pre { break-inside: avoid; }
  h1, h2, h3, .title, caption { break-after: avoid; }
  td { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
"""
