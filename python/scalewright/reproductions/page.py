"""What does a page show on which every row, its assumptions and its terms can be looked up?"""

from __future__ import annotations

import json
from html import escape
from pathlib import Path
from typing import Any

from scalewright.errors import InvalidError
from scalewright.reproductions.showing import plan_in_short
from scalewright.reproductions.target import check_target

Result = dict[str, Any]
_STYLE = """
body { font: 14px/1.4 system-ui, sans-serif; color: #1f2933; margin: 1.5rem; }
h1 { font-size: 1.3rem; } input, select { font: inherit; margin: 0 .6rem .6rem 0; }
table { border-collapse: collapse; width: 100%; } td, th { padding: .2rem .5rem; text-align: left; }
th { border-bottom: 2px solid #1f2933; cursor: pointer; } tr.row:hover { background: #f0f4f8; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; } tr.row { cursor: pointer; }
td.far { color: #b34700; font-weight: 600; } tr.more td { background: #f7f9fb; }
.bar { background: #56b4e9; height: .7rem; display: inline-block; } .skipped { color: #7b8794; }
dl { display: grid; grid-template-columns: 9rem 1fr; gap: .1rem .6rem; margin: .4rem 0; }
dt { color: #52606d; } dd { margin: 0; }
"""
_SCRIPT = """
(() => {
const {rows, sources} = JSON.parse(document.getElementById("rows").textContent);
const body = document.getElementById("body"), paper = document.getElementById("paper");
const status = document.getElementById("status"), words = document.getElementById("words");
let key = null, turn = 1;
for (const name of new Set(rows.map(r => r.paper))) paper.add(new Option(name, name));
const text = value => value === null || value === undefined ? "" : String(value);
const number = value => value === null ? "" : Number(value).toPrecision(4);
function cell(line, value, kind) {
  const made = line.insertCell(); made.textContent = value; if (kind) made.className = kind;
}
function pair(list, name, value) {
  if (!text(value)) return;
  const term = document.createElement("dt"), told = document.createElement("dd");
  term.textContent = name; told.textContent = text(value); list.append(term, told);
}
function opened(line, row) {
  if (line.nextSibling && line.nextSibling.className === "more") {
    line.nextSibling.remove(); return;
  }
  const more = body.insertRow(line.sectionRowIndex + 1); more.className = "more";
  const held = more.insertCell(); held.colSpan = 9;
  const list = document.createElement("dl");
  pair(list, "run", row.run); pair(list, "hardware", row.hardware + " -> " + text(row.system));
  pair(list, "seen", row.seen); pair(list, "use", row.use); pair(list, "finding", row.finding);
  pair(list, "skipped", row.reason); pair(list, "mind", row.note);
  pair(list, "plan", row.plan); pair(list, "training", row.training);
  for (const source of sources[row.told] || []) pair(list, "conventions", source);
  held.append(list);
  if (!row.terms) return;
  const all = row.terms.reduce((sum, term) => sum + term[1], 0);
  const table = document.createElement("table");
  for (const term of row.terms) {
    const line = table.insertRow();
    cell(line, term[0]); cell(line, (term[1] * 1e3).toPrecision(4) + " ms", "n");
    const bar = document.createElement("span"); bar.className = "bar";
    bar.style.width = 20 * term[1] / all + "rem"; line.insertCell().append(bar);
  }
  held.append(table);
}
function draw() {
  body.replaceChildren();
  const wanted = words.value.toLowerCase();
  const far = row => Math.abs(row.error) > 0.15;
  const told = row => [row.paper, row.table, row.model, row.hardware, row.metric].join(" ");
  let shown = rows.filter(row => (!paper.value || row.paper === paper.value)
    && (!status.value || (status.value === "far" ? far(row) : row.status === status.value))
    && (!wanted || told(row).toLowerCase().includes(wanted)));
  const order = (a, b) => a[key] > b[key] ? turn : a[key] < b[key] ? -turn : 0;
  if (key) shown = [...shown].sort(order);
  document.getElementById("count").textContent = shown.length + " rows";
  for (const row of shown) {
    const line = body.insertRow();
    line.className = row.status === "skipped" ? "row skipped" : "row";
    for (const name of ["paper", "table", "model", "devices", "short"]) cell(line, text(row[name]));
    cell(line, row.metric.replaceAll("_", " ") + (row.unit ? ", " + row.unit : ""));
    cell(line, number(row.published), "n"); cell(line, number(row.predicted), "n");
    const off = row.error === null ? row.status : (100 * row.error).toFixed(1) + "%";
    cell(line, off, Math.abs(row.error) > 0.15 ? "n far" : "n");
    line.onclick = () => opened(line, row);
  }
}
for (const head of document.querySelectorAll("th"))
  head.onclick = () => {
    turn = key === head.dataset.key ? -turn : 1; key = head.dataset.key; draw();
  };
for (const field of [paper, status, words]) field.oninput = draw;
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
    *("run", "seen", "use", "finding", "reason", "note"),
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
        f'<th data-key="{key}" class="{"n" if key in _NUMBERS else ""}">{escape(name)}</th>'
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
        f"<title>Published results</title><style>{_STYLE}</style></head><body>"
        f"<h1>Published results and predictions</h1><p>{escape(_told(result))}</p>"
        '<select id="paper"><option value="">all papers</option></select>'
        f'<select id="status">{options}</select>'
        '<input id="words" placeholder="model, hardware, metric"><span id="count"></span>'
        f'<table><thead><tr>{heads}</tr></thead><tbody id="body"></tbody></table>'
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
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in fields.items())


def _told(result: Result) -> str:
    runs = result["summary"]["runs"]
    if not runs["runs"]:
        return "No row on the speed of a step is priced."
    return (
        f"{runs['runs']:,} runs on {len(runs['devices'])} kinds of devices: median error "
        f"{runs['median_abs_error']:.1%}, 90th percentile {runs['p90_abs_error']:.1%}; each paper "
        f"once {runs['macro']['median_abs_error']:.1%} and {runs['macro']['p90_abs_error']:.1%}. "
        "Error: predicted / published - 1. Click on a row for what it assumes and where its time "
        "goes."
    )
