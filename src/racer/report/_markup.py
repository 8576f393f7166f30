"""HTML that says what it was told and nothing else: every text on its way to a page goes through here. Pure."""

from __future__ import annotations

import base64
import html
from typing import Final

from racer._words import one_line

__all__ = ("cell", "data_block", "document", "download", "isolated", "text")

_MAX_SHOWN: Final = 400  # characters of one text; the report itself has all of it
_MAX_LINK: Final = 1_500_000  # bytes; browsers refuse longer links

# Nothing on the page may run or be fetched, whatever a report has smuggled in.
_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)

_STYLE: Final = """\
:root {
  color-scheme: light dark;
  --ground: #fff; --text: #1b1b1f; --soft: #5a5a66; --line: #d5d5de; --panel: #f4f4f8;
  --good: #00755a; --bad: #c04000; --late: #a36a00; --idle: #6b6b78; --link: #0a58b5;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #16161a; --text: #ececf1; --soft: #a5a5b4; --line: #3b3b47; --panel: #202028;
    --good: #35c79d; --bad: #ff8a55; --late: #eab54d; --idle: #a0a0b0; --link: #86bbff;
  }
}
@media print {
  :root {
    color-scheme: light;
    --ground: #fff; --text: #000; --soft: #333; --line: #bbb; --panel: #fff;
    --good: #00755a; --bad: #c04000; --late: #a36a00; --idle: #555; --link: #000;
  }
  .screen { display: none; }
  .row, tr, figure { break-inside: avoid; }
  h2 { break-after: avoid; }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 1.5rem; max-width: 72rem; background: var(--ground); color: var(--text);
  font: 1rem/1.5 system-ui, "Segoe UI", "Noto Sans", sans-serif; overflow-wrap: anywhere;
  -webkit-print-color-adjust: exact; print-color-adjust: exact;
}
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 .25rem; }
h2 { font-size: 1.15rem; margin: 2.25rem 0 .5rem; }
h3 { font-size: 1rem; margin: 1.5rem 0 .25rem; }
p { margin: .5rem 0; max-width: 46rem; }
a { color: var(--link); }
code, pre { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: .85rem; }
pre { white-space: pre-wrap; background: var(--panel); border: 1px solid var(--line); padding: .75rem; }
summary { cursor: pointer; }
.soft, figcaption, dt { color: var(--soft); }
.lead { font-size: 1.1rem; margin-top: 0; }
dl.facts { display: flex; flex-wrap: wrap; gap: .5rem 2rem; margin: 1rem 0; }
dl.facts div { max-width: 100%; }
dt { font-size: .8rem; }
dd { margin: 0; font-weight: 600; }
ul.causes { padding-left: 1.1rem; margin: .5rem 0; }
ul.causes li { margin: .35rem 0; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
caption { text-align: left; color: var(--soft); padding-bottom: .35rem; }
th, td { text-align: left; vertical-align: top; padding: .35rem .9rem .35rem 0; border-top: 1px solid var(--line); }
thead th { border-top: 0; color: var(--soft); font-weight: 600; white-space: nowrap; }
td { overflow-wrap: break-word; }
tbody th { min-width: 7rem; }
td.plot { width: 25%; padding-right: 1.75rem; }
td.number { font-variant-numeric: tabular-nums; white-space: nowrap; }
tr.won th, tr.won td { font-weight: 600; }
figure.waterfall { margin: 1rem 0; }
.row {
  display: grid; grid-template-columns: minmax(6rem, 11rem) 1fr minmax(8rem, 15rem);
  column-gap: 1.75rem; align-items: center;
}
.track { position: relative; align-self: stretch; min-height: 30px; }
.track > svg { position: absolute; inset: 0; width: 100%; height: 100%; }
.axis .track { min-height: 20px; }
.row.idle .what { grid-column: 2 / -1; color: var(--soft); padding: .2rem 0; }
.row .who { font-weight: 600; }
.row.won .who, .row.won .what { color: var(--good); }
.row .what { font-size: .9rem; }
.badge {
  font-size: .72rem; font-weight: 600; border: 1px solid currentColor; border-radius: .6rem; padding: 0 .4rem;
  white-space: nowrap;
}
svg { display: block; overflow: visible; }
svg text { fill: var(--soft); font-size: 12px; }
.grid { stroke: var(--line); stroke-width: 1; }
.bar { stroke-width: 1.5; }
.bar.good { fill: var(--good); stroke: var(--good); }
.bar.bad { fill: url(#hatch-bad); stroke: var(--bad); }
.bar.late { fill: url(#hatch-late); stroke: var(--late); }
.bar.idle { fill: var(--ground); stroke: var(--idle); }
.bar.gone { fill: var(--ground); stroke: var(--idle); stroke-dasharray: 2 3; }
.bar.open { fill: url(#hatch-open); stroke: var(--idle); stroke-dasharray: 5 3; }
.mark { fill: none; stroke-width: 2.5; stroke-linecap: round; }
.halo { fill: none; stroke: var(--ground); stroke-width: 6; stroke-linecap: round; }
.mark.good { stroke: var(--good); } .mark.bad { stroke: var(--bad); } .mark.late { stroke: var(--late); }
.mark.idle, .mark.gone, .mark.open { stroke: var(--idle); }
ul.key { list-style: none; display: flex; flex-wrap: wrap; gap: .25rem 1.5rem; padding: 0; margin: .75rem 0 0; font-size: .85rem; }
ul.key li { display: flex; align-items: center; gap: .5rem; }
@media screen and (max-width: 46rem) {
  body { padding: 1rem 1.25rem; }
  .row { grid-template-columns: 1fr auto; row-gap: 0; padding-top: .35rem; }
  .row .track { grid-column: 1 / -1; grid-row: 2; }
  .row.axis .what { display: none; }
  .row.idle .what { grid-column: auto; }
  .row .what { text-align: right; max-width: 60vw; }
  .row.axis { padding: 0; }
  thead { position: absolute; clip-path: inset(50%); width: 1px; height: 1px; overflow: hidden; }
  tbody, tr, th, td { display: block; border: 0; padding: .1rem 0; }
  tr { border-top: 1px solid var(--line); padding: .5rem 0; }
  td[data-label]::before { content: attr(data-label) ": "; color: var(--soft); font-weight: 400; }
  td:empty { display: none; }
  td.plot { width: 100%; padding-right: 2rem; }
}
"""

# Patterns are told apart without colour. They stand once in a document, and every picture in it refers to them.
_PATTERNS: Final = """\
<svg width="0" height="0" style="position:absolute" aria-hidden="true"><defs>
<pattern id="hatch-bad" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><line x1="0" y1="0" x2="0" y2="7" style="stroke:var(--bad);stroke-width:5"/></pattern>
<pattern id="hatch-late" width="5" height="5" patternUnits="userSpaceOnUse"><line x1="1" y1="0" x2="1" y2="5" style="stroke:var(--late);stroke-width:3"/></pattern>
<pattern id="hatch-open" width="6" height="6" patternUnits="userSpaceOnUse"><circle cx="2" cy="2" r="1.1" style="fill:var(--idle)"/></pattern>
</defs></svg>
"""


def text(value: str, *, most: int = _MAX_SHOWN) -> str:
    """Return `value` on one bounded line, escaped for HTML, attributes included.

    Control characters, direction marks and lone surrogates become visible escapes: a name must not turn a page around.
    """
    line = one_line(value)
    return html.escape(line if len(line) <= most else f"{line[: most - 1]}…")


def isolated(value: str, *, most: int = _MAX_SHOWN) -> str:
    """Return `value` as `text` does, in an element in which its own direction of writing stays."""
    return f"<bdi>{text(value, most=most)}</bdi>"


def cell(label: str, value: str, *, number: bool = False) -> str:
    """Return a table's cell; its label stands before it where a screen is too narrow for columns.

    Args:
        label: the column, as plain text.
        value: the content, as HTML.
        number: whether it is a figure.
    """
    kind = ' class="number"' if number else ""
    return f'<td{kind} data-label="{text(label)}">{value}</td>'


def document(title: str, body: str) -> str:
    """Return a whole HTML page: it fetches nothing, runs nothing, and follows the reader's wish for dark or light.

    Args:
        title: plain text.
        body: HTML, made of what this module has escaped.
    """
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{text(title)}</title>\n<style>\n{_STYLE}</style>\n</head>\n"
        f"<body>\n{_PATTERNS}{body}\n</body>\n</html>\n"
    )


def data_block(json_text: str, *, name: str) -> str:
    """Return JSON as a block of data, which browsers do not run; `json_text` must be ASCII.

    No tag can begin or end in it: what could is written as JSON's own escapes, which readers of JSON undo.
    """
    safe = json_text.replace("&", r"\u0026").replace("<", r"\u003c").replace(">", r"\u003e")
    return f'<script type="application/json" id="{text(name)}">{safe}</script>'


def download(json_text: str, *, file: str, words: str) -> str:
    """Return a link that saves JSON under a file name; nothing for more than browsers put into one."""
    if len(json_text) > _MAX_LINK:
        return ""
    encoded = base64.b64encode(json_text.encode()).decode("ascii")
    return (
        f'<a class="screen" download="{text(file)}" '
        f'href="data:application/json;base64,{encoded}">{text(words)}</a>'
    )
