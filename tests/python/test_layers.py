"""Do imports point down, and does every file keep to the house rules of size and name?"""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "python" / "scalewright"
MOST_LINES = 600
ROOF = {"__init__", "__main__"}


def floors() -> dict[str, int]:
    """Floor by module, from the line of the architecture page that orders them."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    line = re.search(r"^Python, low to high: (.*);$", text, re.MULTILINE)
    assert line, "no order of the Python modules in docs/architecture.md"
    steps = line[1].split("→")
    return {
        name: floor for floor, step in enumerate(steps) for name in re.findall(r"`(\w+)`", step)
    }


def module(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].split(".")[0]


def imported(source: str) -> list[str]:
    """Modules of the package that `source` imports, `scalewright` for the package itself."""
    names: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide where they point"
            if node.module == "scalewright":
                names += [f"scalewright.{alias.name}" for alias in node.names]
            else:
                names.append(node.module or "")
    parts = [name.split(".") for name in names]
    return [p[1] if len(p) > 1 else p[0] for p in parts if p[0] == "scalewright"]


def wrong_imports(source_module: str, source: str) -> list[str]:
    order = floors()
    own = order[source_module]
    return [
        name
        for name in imported(source)
        if name != source_module and (name not in order or order[name] >= own)
    ]


def python_files() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py")) + sorted(PACKAGE.rglob("*.pyi"))


def test_imports_point_down() -> None:
    for path in python_files():
        if module(path) not in ROOF:
            assert module(path) in floors(), f"{path.name} has no floor"
            assert wrong_imports(module(path), path.read_text()) == [], path


@pytest.mark.parametrize(
    ("source", "wrong"),
    [
        ("from scalewright.config import load", []),
        ("from scalewright.cli import main", ["cli"]),
        ("import scalewright.report.table", ["report"]),
        ("from scalewright import cli", ["cli"]),
        ("def f():\n    import scalewright.export", ["export"]),
        ("import scalewright", ["scalewright"]),
    ],
)
def test_an_import_that_points_up_is_found(source: str, wrong: list[str]) -> None:
    assert wrong_imports("catalog", source) == wrong


def test_files_are_short_and_named_by_what_they_hold() -> None:
    for path in python_files() + sorted((ROOT / "tests" / "python").glob("*.py")):
        assert len(path.read_text().splitlines()) <= MOST_LINES, path
        assert not re.search("utils|helpers|manager|common", path.stem), path


def test_every_file_opens_with_a_docstring() -> None:
    for path in python_files():
        assert ast.get_docstring(ast.parse(path.read_text())), path
