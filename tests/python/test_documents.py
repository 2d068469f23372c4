"""Do the documents name files that exist, and is the contributor's page short?"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
FOLDERS = "rust|python|tests|benches|docs|\\.ci"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_named_files_exist(document: Path) -> None:
    named = re.findall(rf"`((?:{FOLDERS})/[^`\s]*)`", document.read_text())
    missing = [path for path in named if "NAME" not in path and not (ROOT / path).exists()]
    assert missing == []


def test_the_contributors_page_stays_short() -> None:
    assert len((ROOT / "CONTRIBUTING.md").read_text().splitlines()) <= 80


@pytest.mark.parametrize("target", ["plan", "test", "lint", "bench", "dist"])
def test_every_command_is_a_make_target(target: str) -> None:
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert f"make {target}" in (ROOT / "Makefile").read_text()
