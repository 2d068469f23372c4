"""What does a page show on which every row, its assumptions and its terms can be looked up?"""

from __future__ import annotations

import json
from html import escape
from pathlib import Path
from typing import Any, cast

from scalewright.errors import InvalidError
from scalewright.reproductions.runs import kinds
from scalewright.reproductions.showing import plan_in_short
from scalewright.reproductions.target import check_target

Result = dict[str, Any]
_STYLE = """
body { font: 14px/1.4 system-ui, sans-serif; color: #1f2933; margin: 1.5rem; }
h1 { font-size: 1.3rem; margin: 0; }
.asked { display: flex; flex-wrap: wrap; gap: .6rem; align-items: baseline; margin: .6rem 0; }
input, select, button { font: inherit; max-width: 100%; box-sizing: border-box; }
table { border-collapse: collapse; width: 100%; } td, th { padding: .2rem .5rem; text-align: left; }
td { vertical-align: top; } td.v { overflow-wrap: anywhere; }
#all > thead th { position: sticky; top: 0; background: #fff; box-shadow: inset 0 -2px #1f2933; }
th[aria-sort="ascending"] button::after { content: " \\2191"; }
th[aria-sort="descending"] button::after { content: " \\2193"; } #words { width: 15rem; }
th button { border: 0; background: none; padding: 0; font-weight: 600; cursor: pointer; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; } tr.row { cursor: pointer; }
tr.row:hover, tr.row:focus { background: #f0f4f8; } tr.row td { border-top: 1px solid #e4e7eb; }
td.far { color: #b34700; font-weight: 600; } tr.more td { background: #f7f9fb; }
.bar { background: #56b4e9; height: .7rem; display: inline-block; }
.skipped { color: #616e7c; } #rest { margin: 1rem .5rem; }
dl { display: grid; grid-template-columns: 9rem 1fr; gap: .1rem .6rem; margin: .4rem 0; }
dt { color: #52606d; } dd { margin: 0; overflow-wrap: anywhere; }
.terms { width: auto; }
@media (max-width: 50rem) {
  body { margin: .7rem; } dl { grid-template-columns: 6rem 1fr; }
  #all > thead tr { display: flex; flex-wrap: wrap; }
  #all > thead th { position: static; box-shadow: none; }
  #all, #all > tbody, tr.more, tr.more > td { display: block; }
  tr.row { display: grid; grid-template-columns: 1fr 1fr 1fr; padding: .3rem 0;
    border-top: 1px solid #9aa5b1; }
  tr.row td { border: 0; padding: 0 .5rem; } tr.row td.wide { grid-column: 1 / -1; }
  tr.row td::before { content: attr(data-name) " "; color: #52606d; font-weight: 400; }
  tr.row td.wide::before { content: ""; } .bar { max-width: 25vw; }
}
"""
_SCRIPT = """
(() => {
const {rows, sources} = JSON.parse(document.getElementById("rows").textContent);
const body = document.getElementById("body"), paper = document.getElementById("paper");
const status = document.getElementById("status"), words = document.getElementById("words");
const rest = document.getElementById("rest"), heads = [...document.querySelectorAll("th")];
const many = 500;
let key = null, turn = 1, shown = [], drawn = 0;
for (const name of new Set(rows.map(r => r.paper))) paper.add(new Option(name, name));
const text = value => value === null || value === undefined ? "" : String(value);
function number(value) {
  if (value === null) return "";
  const size = Math.abs(value), plain = size >= 1e-3 && size < 1e9;
  const digits = size < 1e3 ? {maximumSignificantDigits: 4, minimumSignificantDigits: 4}
    : {maximumFractionDigits: size < 1e4 ? 1 : 0};
  return plain ? value.toLocaleString("en", digits) : value.toPrecision(4);
}
function cell(line, value, kind, name) {
  const made = line.insertCell(); made.textContent = value; if (kind) made.className = kind;
  if (name) made.dataset.name = name;
}
function pair(list, name, value) {
  if (!text(value)) return;
  const term = document.createElement("dt"), told = document.createElement("dd");
  term.textContent = name; told.textContent = text(value); list.append(term, told);
}
function opened(line, row) {
  if (line.nextSibling && line.nextSibling.className === "more") {
    line.nextSibling.remove(); line.ariaExpanded = "false"; return;
  }
  const more = body.insertRow(line.sectionRowIndex + 1); more.className = "more";
  line.ariaExpanded = "true";
  const held = more.insertCell(); held.colSpan = 9;
  const list = document.createElement("dl");
  pair(list, "line", row.line); pair(list, "run", row.run);
  pair(list, "hardware", row.hardware + " -> " + text(row.system));
  pair(list, "seen", row.seen); pair(list, "use", row.use); pair(list, "finding", row.finding);
  pair(list, "skipped", row.reason); pair(list, "mind", row.note);
  pair(list, "plan", row.plan); pair(list, "training", row.training);
  for (const source of sources[row.told] || []) pair(list, "conventions", source);
  held.append(list);
  if (!row.terms) return;
  const all = row.terms.reduce((sum, term) => sum + term[1], 0);
  const table = document.createElement("table"); table.className = "terms";
  for (const term of row.terms) {
    const line = table.insertRow();
    cell(line, term[0]); cell(line, (term[1] * 1e3).toPrecision(4) + " ms", "n");
    const bar = document.createElement("span"); bar.className = "bar";
    bar.style.width = 20 * term[1] / all + "rem"; line.insertCell().append(bar);
  }
  held.append(table);
}
function one(row) {
  const line = body.insertRow();
  line.className = row.status === "skipped" ? "row skipped" : "row";
  line.tabIndex = 0; line.ariaExpanded = "false";
  cell(line, text(row.paper), "wide v"); cell(line, text(row.table), "wide v");
  cell(line, text(row.model), "wide v"); cell(line, text(row.devices), "", "devices");
  cell(line, text(row.short), "", "plan");
  cell(line, row.metric.replaceAll("_", " ") + (row.unit ? ", " + row.unit : ""), "wide v");
  cell(line, number(row.published), "n", "published");
  cell(line, number(row.predicted), "n", "predicted");
  const sign = row.error > 0 ? "+" : "";
  const off = row.error === null ? row.status : sign + (100 * row.error).toFixed(1) + "%";
  cell(line, off, Math.abs(row.error) > 0.15 ? "n far" : "n", "error");
  line.onclick = () => opened(line, row);
  line.onkeydown = event => {
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); opened(line, row); }
  };
}
function further() {
  const end = Math.min(drawn + many, shown.length);
  for (; drawn < end; drawn++) one(shown[drawn]);
  rest.hidden = drawn === shown.length;
  rest.textContent = "show " + Math.min(many, shown.length - drawn) + " more of "
    + (shown.length - drawn);
}
function order(a, b) {
  const [x, y] = [a[key], b[key]].map(v => v === undefined || v === "" ? null : v);
  if (x === null || y === null) return (x === null) - (y === null);
  const sized = key === "error" ? [Math.abs(x), Math.abs(y)] : [Number(x), Number(y)];
  const [p, q] = sized.some(Number.isNaN) ? [x, y] : sized;
  return p > q ? turn : p < q ? -turn : 0;
}
function draw() {
  body.replaceChildren();
  const wanted = words.value.toLowerCase();
  const far = row => Math.abs(row.error) > 0.15;
  const told = row => [row.paper, row.table, row.model, row.hardware, row.metric].join(" ");
  shown = rows.filter(row => (!paper.value || row.paper === paper.value)
    && (!status.value || (status.value === "far" ? far(row) : row.status === status.value))
    && (!wanted || told(row).toLowerCase().includes(wanted)));
  if (key) shown.sort(order);
  document.getElementById("count").textContent = shown.length + " rows";
  drawn = 0; further();
}
for (const head of heads)
  head.onclick = () => {
    // numbers from the largest down, words from the first up
    turn = key === head.dataset.key ? -turn : head.className === "n" ? -1 : 1;
    key = head.dataset.key;
    for (const other of heads)
      other.ariaSort = other !== head ? "none" : turn > 0 ? "ascending" : "descending";
    draw();
  };
for (const field of [paper, status, words]) field.oninput = draw;
rest.onclick = further;
draw();
})();
"""
_HEADS = (
    ("paper", "paper"),
    ("table", "table"),
    ("model", "model"),
    ("devices", "devices"),
    ("short", "plan"),
    ("metric", "metric"),
    ("published", "published"),
    ("predicted", "predicted"),
    ("error", "error"),
)
_KEPT = (
    *("paper", "table", "model", "devices", "metric", "unit", "status", "hardware", "system"),
    *("line", "run", "seen", "use", "finding", "reason", "note"),
)
_NUMBERS = {"published", "predicted", "error"}


def check_page(path: str | Path) -> None:
    """Refuse a file that is no page or cannot be written, before anything is computed.

    Raises:
        InvalidError: The file does not end with `.html`, or cannot be written.
    """
    check_target("page", path, (".html",))


def write_page(result: Result, path: str | Path) -> None:
    """Write a page that needs nothing beside itself: every row, what it assumes, its terms.

    Args:
        result: What `run` returned, with `detail`.
        path: An `.html` file.

    Raises:
        InvalidError: The file cannot be written.
    """
    check_page(path)
    texts: list[list[str]] = []
    rows = [_row(row, texts) for row in result["rows"]]
    # a text with `</script` or `<!--` would end the script's element, or keep it from ending
    data = json.dumps({"rows": rows, "sources": texts}, allow_nan=False, separators=(",", ":"))
    data = data.replace("<", "\\u003c")
    heads = "".join(
        f'<th data-key="{key}" class="{"n" if key in _NUMBERS else ""}">'
        f"<button>{escape(name)}</button></th>"
        for key, name in _HEADS
    )
    options = "".join(
        f'<option value="{value}">{name}</option>'
        for value, name in (
            ("", "any status"),
            ("priced", "priced"),
            ("searched", "searched: a best case"),
            ("skipped", "skipped"),
            ("far", "off by more than 15%"),
        )
    )
    page = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Published results</title><style>{_STYLE}</style></head><body>"
        f"<h1>Published results and predictions</h1><p>{escape(_told(result))}</p>"
        '<div class="asked"><select id="paper" aria-label="paper">'
        '<option value="">all papers</option></select>'
        f'<select id="status" aria-label="status">{options}</select>'
        '<input id="words" type="search" aria-label="words" '
        'placeholder="model, hardware, metric"><span id="count" role="status"></span></div>'
        f'<table id="all"><thead><tr>{heads}</tr></thead><tbody id="body"></tbody></table>'
        '<button id="rest" hidden></button>'
        f'<script id="rows" type="application/json">{data}</script>'
        f"<script>{_SCRIPT}</script></body></html>\n"
    )
    try:
        Path(path).write_text(page, encoding="utf-8")
    except OSError as error:
        message = f"page: {path}: cannot be written: {error.strerror}"
        raise InvalidError(message) from error


def _row(row: Result, texts: list[list[str]]) -> Result:
    """Return what the page needs of a row; long texts that rows share go to `texts`."""
    kept = {name: row[name] for name in _KEPT if row.get(name) is not None}
    kept |= {"error": row["error"], "published": row["published"], "predicted": row["predicted"]}
    if row["plan"] is None:
        return kept
    if row["sources"] not in texts:
        texts.append(row["sources"])
    return kept | {
        "told": texts.index(row["sources"]),
        "short": plan_in_short(row["plan"]),
        "plan": _listed(row["plan"]),
        "training": _listed(row["training"]),
        "terms": [(term["term"], float(f"{term['time_s']:.5g}")) for term in row["terms"]],
    }


def _listed(fields: Result) -> str:
    return ", ".join(
        f"{name.replace('_', ' ')} {_told_of(value)}" for name, value in fields.items()
    )


def _told_of(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return f"({_listed(cast('Result', value))})"
    if isinstance(value, list):
        return " / ".join(map(_told_of, cast("list[object]", value)))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _told(result: Result) -> str:
    runs = result["summary"]["runs"]
    if not runs["runs"]:
        return "No row on the speed of a step is priced."
    return (
        f"{runs['runs']:,} runs on {kinds(runs['devices'])}: median error "
        f"{runs['median_abs_error']:.1%}, 90th percentile {runs['p90_abs_error']:.1%}; each paper "
        f"once {runs['macro']['median_abs_error']:.1%} and {runs['macro']['p90_abs_error']:.1%}. "
        "Error: predicted / published - 1. A row opens to what it assumes and where its time "
        "goes."
    )
