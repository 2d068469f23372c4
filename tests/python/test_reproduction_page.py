"""Is the page of reproductions sound HTML that shows every row and needs nothing beside itself?"""

from __future__ import annotations

import json
import re
import subprocess
from html.parser import HTMLParser
from shutil import which
from typing import TYPE_CHECKING, Any

import pytest

from scalewright.reproductions.page import write_page
from test_reproduction_pictures import reproduced

if TYPE_CHECKING:
    from pathlib import Path

VOID = {"meta", "input", "br", "hr", "img", "link"}
FOREIGN = ("src", "href", "action", "srcset", "data", "poster", "formaction")


class Page(HTMLParser):
    """What a parser finds: balance, attributes and the text of scripts."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.unbalanced: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: dict[str, str] = {}
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self._script = dict(attrs).get("id") or "code"
            self.scripts[self._script] = ""
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.unbalanced.append(tag)

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts[self._script] += data
        elif not self.open or self.open[-1] != "style":
            self.text += data

    def ids(self) -> list[str]:
        return [str(attrs["id"]) for _, attrs in self.tags if "id" in attrs]

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for found, attrs in self.tags if found == tag]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Page, Path]:
    folder = tmp_path_factory.mktemp("page")
    result = reproduced(folder, detail=True)
    file = folder / "page.html"
    write_page(result, file)
    page = Page()
    page.feed(file.read_text(encoding="utf-8"))
    page.close()
    return result, page, folder


def test_every_tag_closes_and_names_are_unlike(made: tuple[dict[str, Any], Page, Path]) -> None:
    _, page, _ = made
    assert not page.unbalanced
    assert not page.open
    assert len(set(page.ids())) == len(page.ids())
    assert [tag for tag, _ in page.tags][:2] == ["html", "head"]
    assert page.all("html")[0]["lang"] == "en"
    assert set(page.scripts) == {"rows", "code"}


def test_the_parser_would_see_a_page_that_does_not_close() -> None:
    for text in ("<p><b></p></b>", "<table><tr></table>", "<div>"):
        page = Page()
        page.feed(text)
        assert page.unbalanced or page.open


def test_every_row_is_there_with_its_figures(made: tuple[dict[str, Any], Page, Path]) -> None:
    result, page, _ = made
    told = json.loads(page.scripts["rows"])["rows"]
    assert [row["status"] for row in told] == [row["status"] for row in result["rows"]]
    for shown, row in zip(told, result["rows"], strict=True):
        for name in ("paper", "table", "model", "published", "predicted", "error"):
            assert shown[name] == row[name]
        if row["status"] == "skipped":
            assert shown["reason"] == row["reason"]
        else:
            assert len(shown["terms"]) == len(row["terms"])


def test_the_page_asks_for_nothing_beside_itself(made: tuple[dict[str, Any], Page, Path]) -> None:
    _, page, _ = made
    for tag, attrs in page.tags:
        assert tag not in {"link", "img", "iframe", "object", "base", "form"}
        assert not set(attrs) & set(FOREIGN), tag
    code = page.scripts["code"]
    for word in ("fetch", "XMLHttpRequest", "import", "WebSocket", "eval", "innerHTML", "http"):
        assert word not in code


def test_the_script_finds_what_it_asks_for(made: tuple[dict[str, Any], Page, Path]) -> None:
    _, page, _ = made
    code = page.scripts["code"]
    asked = set(re.findall(r'getElementById\("(\w+)"\)', code))
    assert asked
    assert asked <= set(page.ids())
    heads = page.all("th")
    assert all(head["data-key"] for head in heads)
    assert f"colSpan = {len(heads)}" in code
    assert {option["value"] for option in page.all("option")} >= {"", "priced", "far"}


# as much of a document as the script touches
STUB = """
class Element {
  constructor(tag) { this.tag = tag; this.kids = []; this.style = {}; this.dataset = {};
    this.value = ""; this.textContent = ""; this.className = ""; }
  append(...kids) { for (const kid of kids) { kid.parent = this; this.kids.push(kid); } }
  add(kid) { this.append(kid); }
  insertCell() { const made = new Element("td"); this.append(made); return made; }
  insertRow(at) {
    const made = new Element("tr"); made.parent = this;
    this.kids.splice(at === undefined ? this.kids.length : at, 0, made); return made;
  }
  get sectionRowIndex() { return this.parent.kids.indexOf(this); }
  get nextSibling() { return this.parent.kids[this.sectionRowIndex + 1] || null; }
  remove() { this.parent.kids.splice(this.sectionRowIndex, 1); }
  replaceChildren() { this.kids = []; }
  get all() { return this.textContent + this.kids.map(kid => " " + kid.all).join(""); }
}
class Option extends Element {
  constructor(text, value) { super("option"); this.textContent = text; this.value = value; }
}
const known = {};
const heads = HEADS.map(([key, className]) =>
  Object.assign(new Element("th"), {dataset: {key}, className}));
globalThis.Option = Option;
globalThis.document = {
  getElementById: id => known[id] ||= new Element(id),
  createElement: tag => new Element(tag),
  querySelectorAll: () => heads,
};
document.getElementById("rows").textContent = JSON.stringify(DATA);
"""
ASKED = """
const body = known.body.kids, lines = () => known.body.kids.map(line => line.all);
const found = {all: lines(), count: known.count.textContent, papers: known.paper.kids.length};
known.body.kids[0].onclick(); found.opened = lines(); known.body.kids[0].onclick();
found.closed = lines().length;
known.status.value = "skipped"; known.status.oninput(); found.skipped = lines();
known.status.value = ""; known.words.value = "22b"; known.words.oninput(); found.words = lines();
known.words.value = ""; heads[6].onclick(); found.sorted = lines();
heads[6].onclick(); found.turned = lines();
heads[8].onclick(); found.far = lines(); heads[8].onclick(); found.near = lines();
console.log(JSON.stringify(found));
"""


def test_the_script_draws_filters_sorts_and_opens_rows(
    made: tuple[dict[str, Any], Page, Path],
) -> None:
    node = which("node")
    if node is None:
        pytest.skip("no interpreter of scripts here")
    result, page, folder = made
    keys = json.dumps([(head["data-key"], head["class"]) for head in page.all("th")])
    stub = STUB.replace("HEADS", keys).replace("DATA", page.scripts["rows"])
    script = folder / "page.cjs"
    script.write_text(stub + page.scripts["code"] + ASKED, encoding="utf-8")
    ran = subprocess.run([node, str(script)], check=True, capture_output=True, text=True)
    found = json.loads(ran.stdout)
    rows = result["rows"]
    assert len(found["all"]) == len(rows)
    assert found["count"] == f"{len(rows)} rows"
    assert found["papers"] == len({row["paper"] for row in rows})
    assert "conventions" in found["opened"][1]
    assert " ms" in found["opened"][1]
    assert found["closed"] == len(rows)
    skipped = [row for row in rows if row["status"] == "skipped"]
    assert len(found["skipped"]) == len(skipped)
    assert len(found["words"]) == sum("22b" in row["model"].casefold() for row in rows)
    assert found["sorted"] != found["turned"]
    assert sorted(found["sorted"]) == sorted(found["turned"]) == sorted(found["all"])
    # sizes of errors from the largest down and up again, rows without one last
    sizes = sorted((abs(row["error"]) for row in rows if row["error"] is not None), reverse=True)
    for lines, wanted in ((found["far"], sizes), (found["near"], sizes[::-1])):
        told = [line.rpartition(" ")[2] for line in lines]
        assert [float(end.strip("+-%")) for end in told[: len(sizes)]] == pytest.approx(
            [100 * size for size in wanted], abs=0.05
        )
        assert told[len(sizes) :] == ["skipped"] * len(skipped)


MANY = """
const found = [known.body.kids.length];
while (!known.rest.hidden) { known.rest.onclick(); found.push(known.body.kids.length); }
console.log(JSON.stringify(found));
"""


def test_many_rows_are_drawn_part_by_part(made: tuple[dict[str, Any], Page, Path]) -> None:
    node = which("node")
    if node is None:
        pytest.skip("no interpreter of scripts here")
    _, page, folder = made
    data = json.loads(page.scripts["rows"])
    data["rows"] = [data["rows"][0]] * 1300
    keys = json.dumps([(head["data-key"], head["class"]) for head in page.all("th")])
    stub = STUB.replace("HEADS", keys).replace("DATA", json.dumps(data))
    script = folder / "many.cjs"
    script.write_text(stub + page.scripts["code"] + MANY, encoding="utf-8")
    ran = subprocess.run([node, str(script)], check=True, capture_output=True, text=True)
    assert json.loads(ran.stdout) == [500, 1000, 1300]


def test_fields_are_told_in_words(made: tuple[dict[str, Any], Page, Path]) -> None:
    result, page, _ = made
    for shown, row in zip(json.loads(page.scripts["rows"])["rows"], result["rows"], strict=True):
        assert shown["line"] == row["line"]
        if row["plan"] is not None:
            assert "sequence parallel no" in shown["plan"]
            assert not set("{}'[]") & set(shown["plan"] + shown["training"])


def test_the_page_fits_a_telephone(made: tuple[dict[str, Any], Page, Path]) -> None:
    _, page, _ = made
    sizes = [meta for meta in page.all("meta") if meta.get("name") == "viewport"]
    assert [size["content"] for size in sizes] == ["width=device-width, initial-scale=1"]
