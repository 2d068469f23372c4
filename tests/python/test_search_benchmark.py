"""Does the page of search figures hold every job of its script, and does the script run?"""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from scalewright.config import FIELDS

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "benches" / "search_spaces.py"
PAGE = ROOT / "docs" / "performance.md"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("search_spaces", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["search_spaces"] = module
    spec.loader.exec_module(module)
    return module


def rates(page: str) -> list[list[str]]:
    """The cells of the table of searches, a list for each row."""
    section = page.partition("## Searches")[2].partition("\n## ")[0]
    lines = re.findall(r"^\| (.*) \|$", section, re.MULTILINE)
    return [line.split(" | ") for line in lines]


def wanted(script: ModuleType) -> list[tuple[str, str, str]]:
    return [
        (job.name, method, front)
        for job in script.JOBS
        for front in script.FRONTS
        for method in script.METHODS
    ]


def test_the_page_has_every_search_of_the_script(script: ModuleType) -> None:
    head, *rows = rates(PAGE.read_text())
    assert tuple(head) == script.COLUMNS
    assert [(name, method, front) for name, method, front, *_ in rows] == wanted(script)


def test_the_counts_of_the_page_add_up() -> None:
    """Each legal plan is priced, excluded or does not fit, and the rate is that of the seconds."""
    for row in rates(PAGE.read_text())[1:]:
        threads, legal, priced, excluded, not_fitting = (
            int(cell.replace(",", "")) for cell in row[3:8]
        )
        seconds, rate = (float(cell.replace(",", "")) for cell in row[8:10])
        assert priced + excluded + not_fitting == legal
        # seconds are rounded to a thousandth
        assert abs(rate * seconds * threads - legal) <= rate * threads * 6e-4 + threads * seconds


def test_the_page_says_what_the_spaces_are(script: ModuleType) -> None:
    """The text outside of figures is that of the template, and every job has its line and plan."""
    text = PAGE.read_text()
    template = SCRIPT.with_suffix(".md").read_text()
    around = re.split(r"\{\w+\}", template)
    assert all(part in text for part in around)
    for job in script.JOBS:
        assert text.count(f"| {job.name} |") == len(script.FRONTS) * len(script.METHODS) + 2


def test_a_large_space_has_a_hundred_million_plans() -> None:
    largest = max(int(row[4].replace(",", "")) for row in rates(PAGE.read_text())[1:])
    assert largest >= 100_000_000


def test_spaces_name_fields_of_a_plan(script: ModuleType) -> None:
    fields = set(FIELDS)
    assert [job.name for job in script.JOBS if not set(job.space()) <= fields] == []


def test_a_page_of_one_mesh_each_is_measured_and_written(
    script: ModuleType, tmp_path: Path
) -> None:
    page = tmp_path / "page.md"
    command = [sys.executable, str(SCRIPT), "--quick", "--write", str(page)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    head, *rows = rates(page.read_text())
    assert tuple(head) == script.COLUMNS
    assert [(name, method, front) for name, method, front, *_ in rows] == wanted(script)
    assert all(int(row[4].replace(",", "")) > 0 for row in rows)
    assert all(job.name in done.stdout for job in script.JOBS)


def test_searches_that_do_not_agree_are_refused(script: ModuleType) -> None:
    counts = {"legal": 4, "priced": 1, "excluded": 2, "not_fitting": 1, "seconds": 1.0}
    alike = [
        script.Row(
            script.JOBS[0], method, "none", plan={"tensor": tensor}, step_time_s=1.0, **counts
        )
        for method, tensor in (("exhaustive", 8), ("bounds", 4))
    ]
    with pytest.raises(RuntimeError, match="do not agree"):
        script.same_answers(alike)
    script.same_answers(alike[:1])
