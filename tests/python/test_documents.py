"""Do the documents name files that exist, and is the contributor's page short?"""

import inspect
import re
import shlex
from pathlib import Path

import pytest

import scalewright as sw
from scalewright.cli import main
from scalewright.report.schedule import steps

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
FOLDERS = "rust|python|tests|benches|docs|\\.ci"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_named_files_exist(document: Path) -> None:
    named = re.findall(rf"`((?:{FOLDERS})/[^`\s]*)`", document.read_text())
    missing = [path for path in named if "NAME" not in path and not (ROOT / path).exists()]
    assert missing == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_python_runs_as_it_stands(
    document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One program for each block; what it writes goes to the folder where it runs."""
    blocks = re.findall(r"^```python\n(.*?)^```", document.read_text(), re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(tmp_path)
    for place, block in enumerate(blocks, 1):
        exec(compile(block, f"block {place} of {document.name}", "exec"), {})


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_named_verbs_exist(document: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    verbs = set(re.findall(r"^    ([a-z-]+)(?: |$)", capsys.readouterr().out, re.MULTILINE))
    called = r"(?:`|^\$ |^)scalewright ([a-z][a-z-]*)"
    assert set(re.findall(called, document.read_text(), re.MULTILINE)) <= verbs


def test_the_contributors_page_stays_short() -> None:
    assert len((ROOT / "CONTRIBUTING.md").read_text().splitlines()) <= 80


@pytest.mark.parametrize("target", ["plan", "test", "lint", "bench", "bench-search", "dist"])
def test_every_command_is_a_make_target(target: str) -> None:
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert f"make {target}" in (ROOT / "Makefile").read_text()


def test_the_table_of_plan_fields_is_that_of_the_plan() -> None:
    """Names, defaults and meanings are those of the class, in its order."""
    page = (ROOT / "docs" / "plans.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| (\S+) \| (.*) \|$", page, re.MULTILINE)
    _, _, told = (inspect.getdoc(sw.Plan) or "").partition("Attributes:\n")
    told = re.sub(r"\n {8,}", " ", told)
    defaults = {name: str(value) for name, value in sw.Plan().to_dict().items()}
    switches = {"True": "true", "False": "false"}
    wanted = [
        (name, switches.get(defaults[name], defaults[name]), meaning)
        for name, meaning in re.findall(r"^ {4}(\w+): (.*)$", told, re.MULTILINE)
        if name in defaults
    ]
    assert list(defaults) == [name for name, _, _ in wanted]
    assert rows == wanted


def test_the_table_of_schedules_is_that_of_the_engine() -> None:
    """Rows of the page; where they differ, those that belong there are shown."""
    page = (ROOT / "docs" / "schedules.md").read_text()
    head = "| name | chunks | steps | splits | source |\n|---|---|---|---|---|\n"
    _, _, rest = page.partition(head)
    wanted = "".join(
        f"| `{rule.name}` | {rule.chunks} | {steps(rule)} | {'yes' if rule.splits else 'no'} | "
        f"{rule.source} |\n"
        for rule in sw.schedules()
    )
    assert rest[: rest.index("\n\n") + 1] == wanted, f"docs/schedules.md needs\n{head}{wanted}"


def _consoles() -> list[tuple[str, str, list[str]]]:
    """Return the commands of the pages that show what is printed: page, command, lines."""
    found: list[tuple[str, str, list[str]]] = []
    for page in sorted((ROOT / "docs").glob("*.md")):
        for block in re.findall(
            r"```console\n\$ scalewright (.*?)```", page.read_text(), re.DOTALL
        ):
            command, shown = block.replace("\\\n", " ").split("\n", 1)
            # a search for each constant takes a minute
            if "--search" not in command:
                found.append((page.name, command, [line for line in shown.splitlines() if line]))
    return found


@pytest.mark.parametrize(("page", "command", "shown"), _consoles())
def test_a_console_of_the_pages_shows_what_is_printed(
    page: str,
    command: str,
    shown: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Lines may be left out, but none is another or stands elsewhere."""
    monkeypatch.setenv("COLUMNS", "120")
    assert main(shlex.split(command)) == 0
    printed = iter(capsys.readouterr().out.splitlines())
    for line in shown:
        assert any(line.rstrip() == other.rstrip() for other in printed), f"docs/{page}: {line}"


def test_the_answer_of_the_pages_is_the_one_that_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only how long the search took, and the stamp, may differ."""
    monkeypatch.setenv("COLUMNS", "112")
    job = ["--model", "gpt3-175b", "--system", "dgx-a100-80gb", "--devices", "1024"]
    assert main(["plan", *job, "--global-batch", "1536", "--sequence", "2048"]) == 0
    printed = capsys.readouterr().out.strip().splitlines()
    page = (ROOT / "docs" / "answer.md").read_text().split("```\n")[1].splitlines()
    proof = next(place for place, line in enumerate(printed) if line.startswith("proven"))
    assert "\n".join(printed[proof:-1]) in "\n".join(page), "docs/answer.md is old: `make plan`"
    readme = (ROOT / "README.md").read_text()
    shown = readme[readme.index("## What `make plan` prints") :].split("```\n")[1].splitlines()
    assert set(shown) <= {*page, ""}, "README.md shows another answer than docs/answer.md"
