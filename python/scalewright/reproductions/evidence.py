"""What do the page of evidence, the README's table and the file of residuals say?"""

from __future__ import annotations

import math
import re
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scalewright.catalog.layers import built_in_root
from scalewright.errors import InvalidError
from scalewright.planning.error_band import FILE, UNSEEN_FILE, Widening, recorded
from scalewright.reproductions.ablation import sides
from scalewright.reproductions.columns import SEEN
from scalewright.reproductions.comparing import summary
from scalewright.reproductions.findings import FAR, UNEXPLAINED
from scalewright.reproductions.parity import short
from scalewright.reproductions.residuals import (
    coverage,
    read_results,
    residual_table,
    widening,
)
from scalewright.reproductions.runs import counts, kinds
from scalewright.reproductions.target import check_target
from scalewright.reproductions.unseen import unseen_line, unseen_section

if TYPE_CHECKING:
    from collections.abc import Iterable

Result = dict[str, Any]
_START, _END = "<!-- evidence: made by `make evidence` -->", "<!-- end of evidence -->"
_BOOK, _LATER = "training.csv", "training_later.csv"
_TIMED = "timed_steps.csv"
_OWN = (
    ", timed as the package's own script times it (`docs/eager-kernels.md`), to which no constant "
    "was fitted, though what their programs keep was read from code with these memories in view"
)
_AFTER = (
    ", for which no constant was fitted, though with their errors in view profiles of their "
    "programs were written, lasting rates of Blackwell were taken from the kernel book where one "
    "site's had stood, attention was given the clock of products, as timed kernels say, "
    "and the constants of timed kernels of training where those of prompts had stood, "
    "merges around a ring were counted in the sources of programs, what hosts take for an "
    "operation was set by a test of Megatron-LM that is no row, what hides sums of gradients "
    "where chunks take turns was mended as the simulated step has it, attention of cuDNN 8.9 was "
    "taken as slow as release notes allow, what all-to-alls take from passes beside them was "
    "reckoned from units, broadcasts were counted as NCCL's tuner does, passes of eager programs "
    "were taken from kernels timed alone, and classes of programs were told apart by words of rows"
)
_FEWEST_ROWS, _FEWEST_RUNS = 5, 3
_HEADER_LINES = 4
_NOTHING = 5e-4
"""A change of the mean error below this earns no place by itself."""
_KEPT = {
    "residence in caches": (
        "Residence in caches changes little in a step, whose layers pass through the caches one "
        "after another; kernels that a benchmark repeats show it, in the next table."
    ),
    "training's own attention kernels": (
        "Without training's own attention kernels those of prompts stand in, whose errors of 13 to "
        "50% (`docs/attention-kernels.md`) are small shares of most steps, of either sign; timed "
        "kernels tell them apart."
    ),
    "what compilers do not repeat": (
        "What compilers do not repeat stays because its source says so (`jax.checkpoint` computes "
        "again what gradients read, not the results of a layer: its documentation, docs.jax.dev); "
        "it shortens full recomputation under XLA, where most runs come out too quick already."
    ),
    "throttling in long products": (
        "Throttling in long products stays for timed kernels, as the next table shows. In a step "
        "it slows products on devices alone that do not say what rate lasts."
    ),
}
"""Why a term stays that lowers no error."""


def write_residuals(results: Iterable[Result], unseen: Iterable[Result]) -> None:
    """Write the catalog's files of residuals: of the rows that count, and of unseen sources."""
    table = residual_table(results)
    place = Path(str(built_in_root() / "published" / FILE))
    _write(place, _remark(Widening()) + table)
    _write(place.with_name(UNSEEN_FILE), _remark(Widening()) + residual_table(unseen))
    residuals, _ = recorded()
    _write(place, _remark(widening(residuals)) + table)


def recorded_results(name: str = FILE) -> list[Result]:
    """Return the rows of one of the catalog's files of residuals."""
    text = (built_in_root() / "published" / name).read_text(encoding="utf-8")
    return read_results(text.partition("\n")[2])


def write_evidence(page: str | Path, readme: str | Path, ablation: str) -> None:
    """Write the page and the README's block from the file of residuals.

    Raises:
        InvalidError: A file cannot be written, or the README has no place for the block.
    """
    rows = recorded_results()
    _write(Path(page), evidence_page(rows, ablation))
    text = Path(readme).read_text(encoding="utf-8")
    if _START not in text or _END not in text:
        message = f"write: {readme}: got no block; allowed: a file with the line {_START}"
        raise InvalidError(message)
    before, _, rest = text.partition(_START)
    _write(Path(readme), f"{before}{readme_block(rows)}{rest.partition(_END)[2]}")


def write_page_of(rows: list[Result], path: str | Path) -> None:
    """Write the page of any comparison's rows; what each term is worth stays as it stands there.

    Raises:
        InvalidError: The file cannot be written, or no row is priced.
    """
    if not summary(rows)["runs"]["runs"]:
        message = "write: got no priced row on the speed of a step; allowed: one at least"
        raise InvalidError(message)
    _write(Path(path), evidence_page(rows, ablation_of(path)))


def check_evidence(path: str | Path) -> None:
    """Refuse a file that is no Markdown or cannot be written, before anything is computed.

    Raises:
        InvalidError: The file does not end with `.md`, or cannot be written.
    """
    check_target("write", path, (".md",))


def readme_block(rows: list[Result]) -> str:
    """Return the README's table with the marks around it."""
    told = summary(rows)
    lines = [_START, "| published | runs | median error | 90th percentile | signed median |"]
    lines.append("|---|---|---|---|---|")
    for paper, errors in _largest(told):
        lines.append(f"| {_cell(paper)} | {_run_cells(errors['runs'])} |")
    runs, macro = told["runs"], told["runs"]["macro"]
    lines.append(f"| all runs, on {kinds(runs['devices'])} | {_run_cells(runs)} |")
    lines.append(
        f"| each of {macro['papers']} papers once | | {macro['median_abs_error']:.1%} | "
        f"{macro['p90_abs_error']:.1%} | |"
    )
    return "\n".join([*lines, unseen_line(), _END])


def evidence_page(rows: list[Result], ablation: str) -> str:
    """Return the page: papers, kinds, memory, findings, bands, ablation, what is skipped."""
    told = summary(rows)
    parts = [
        _head(told),
        _papers(told),
        _book(rows),
        _tables(rows),
        _kinds(rows),
        _far(rows),
        _unseen(rows),
        _bands(),
        "## What each term is worth\n\n" + ablation.strip(),
        _skipped(rows),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def ablation_table(found: Result) -> str:
    """Return what `ablation` found as text and table."""
    base = found["base"]
    lines = [
        f"{found['runs']} runs, at most twelve of a paper, priced again without one term, their "
        "plans as they were; each paper counts once. A term earns its place where the error grows "
        "without it; while most papers come out too quick, any term that takes time does. Lines of "
        "the time are left out of the sum, constants are set to where they do nothing.\n",
        "| without | runs with it | mean error | change | median | papers better / worse |",
        "|---|---|---|---|---|---|",
        f"| (nothing) | {found['runs']} | {base['mean_abs_error']:.1%} | | "
        f"{base['median_abs_error']:.1%} | |",
    ]
    for term in sorted(found["terms"], key=lambda term: -term["mean_abs_error"]):
        if not term["runs"]:
            continue
        better, worse = sides(base, term)
        change = term["mean_abs_error"] - base["mean_abs_error"]
        lines.append(
            f"| {term['term']} | {term['runs']} | {term['mean_abs_error']:.1%} | {change:+.1%} | "
            f"{term['median_abs_error']:.1%} | {better} / {worse} |"
        )
    means = {
        term["term"]: term["mean_abs_error"] - base["mean_abs_error"] for term in found["terms"]
    }
    kept = [why for name, why in _KEPT.items() if means.get(name, 1.0) < _NOTHING]
    return "\n".join(lines) + ("\n\n" + " ".join(kept) if kept else "")


def ablation_of(page: str | Path) -> str:
    """Return the ablation that a page holds, so that the rest can be made again without it."""
    text = Path(page).read_text(encoding="utf-8") if Path(page).exists() else ""
    found = re.search(r"## What each term is worth\n\n(.*?)\n\n## ", text, re.DOTALL)
    return found[1] if found else "Not made yet."


def _remark(widened: Widening) -> str:
    return f"# Predictions of published results, made by `make evidence`; {widened}\n"


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        message = f"write: {path}: cannot be written: {error.strerror}"
        raise InvalidError(message) from error


def _head(told: Result) -> str:
    runs = told["runs"]
    return (
        "# Evidence\n\nMade by `make evidence` from the rows of "
        "`python/scalewright/catalog/published/`, which `scalewright reproduce` prices (format: "
        "`docs/evidence-format.md`; a picture: `--picture FILE.png`; every row with all that it "
        "assumes and its terms: `--page FILE.html`). No constant is fitted to a row that counts. "
        "Signed: of the time of a step, below zero where the prediction is too quick; p: two-sided "
        "sign test of quick against slow.\n\n"
        f"{told['rows_priced']:,} rows are priced as their source sets them, "
        f"{told['rows_searched']:,} have a field of the plan searched (a best case), "
        f"{told['rows_skipped']:,} cannot be priced. They speak of {runs['runs']:,} runs on "
        f"{kinds(runs['devices'])}: {', '.join(runs['devices'])}."
    )


def _papers(told: Result) -> str:
    lines = [
        "## Speed of a step, by run\n",
        "| paper | runs | median | 90th percentile | signed median | quick / slow | p |",
        "|---|---|---|---|---|---|---|",
    ]
    for paper, errors in told["by_paper"].items():
        if errors["runs"]["runs"]:
            lines.append(f"| {_cell(paper)} | {_run_cells(errors['runs'])} | {_sides(errors)} |")
    lines.append(f"| all | {_run_cells(told['runs'])} | {_sides(told)} |")
    runs = told["runs"]
    means = [("each paper once", runs["macro"])]
    means += [(f"{name} alone", mean) for name, mean in runs["macro_by_status"].items()]
    for name, mean in means:
        if mean["papers"]:
            sizes = f"{mean['median_abs_error']:.1%} | {mean['p90_abs_error']:.1%}"
            lines.append(f"| {name}: mean of {mean['papers']} papers | | {sizes} | | | |")
    return "\n".join(lines)


def _book(rows: list[Result]) -> str:
    told = [
        f"Of `{file}` alone{said}, {_alone(runs)}"
        for file, said in ((_BOOK, ""), (_LATER, _AFTER), (_TIMED, _OWN))
        if (runs := summary(row for row in rows if row["file"] == file)["runs"])["runs"]
    ]
    recalled = [abs(row["error"]) for row in rows if counts(row) and row["seen"] != SEEN[0]]
    if told and recalled:
        told.append(
            f"{len(recalled)} rows among all were recalled and not read in their source: mean "
            f"error {statistics.fmean(recalled):.1%}."
        )
    return " ".join(told)


def _alone(runs: Result) -> str:
    macro = runs["macro"]
    return (
        f"{runs['runs']} runs on {kinds(runs['devices'])}: each paper once, a "
        f"median of {macro['median_abs_error']:.1%} and a 90th percentile of "
        f"{macro['p90_abs_error']:.1%}; over runs {runs['median_abs_error']:.1%}, signed "
        f"{runs['median_time_error']:+.1%}."
    )


def _tables(rows: list[Result]) -> str:
    lines = [
        "## Tables of five rows and more\n",
        "Errors of single figures in their own metric: predicted / published - 1.\n",
        "| paper | table | rows | mean | median | worst | signed mean | signed median |",
        "|---|---|---|---|---|---|---|---|",
    ]
    groups: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        if counts(row) and row["kind"] != "memory":
            groups.setdefault((short(row["paper"]), row["table"]), []).append(row["error"])
    for (paper, table), errors in groups.items():
        if len(errors) < _FEWEST_ROWS:
            continue
        sizes = [abs(error) for error in errors]
        told = (statistics.fmean(sizes), statistics.median(sizes), max(sizes))
        signed = (statistics.fmean(errors), statistics.median(errors))
        cells = [f"{size:.1%}" for size in told] + [f"{size:+.1%}" for size in signed]
        lines.append(f"| {_cell(paper)} | {_cell(table)} | {len(errors)} | {' | '.join(cells)} |")
    return "\n".join(lines) if len(lines) > _HEADER_LINES else ""


def _kinds(rows: list[Result]) -> str:
    lines = [
        "## Memory and layers\n",
        "| paper | metric | rows | mean | worst | signed mean |",
        "|---|---|---|---|---|---|",
    ]
    groups: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        if row["kind"] in {"memory", "layer"} and row["error"] is not None:
            groups.setdefault((row["paper"], row["metric"]), []).append(row["error"])
    for (paper, metric), errors in groups.items():
        sizes = [abs(error) for error in errors]
        mean, signed = sum(sizes) / len(sizes), sum(errors) / len(errors)
        told = f"{len(errors)} | {mean:.1%} | {max(sizes):.1%} | {signed:+.1%}"
        lines.append(f"| {_cell(paper)} | {metric.replace('_', ' ')} | {told} |")
    return "\n".join(lines)


def _far(rows: list[Result]) -> str:
    groups: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        if row["finding"] is not None:
            groups.setdefault((row["finding"], row["paper"]), []).append(row["error"])
    count = sum(map(len, groups.values()))
    open_rows = sum(len(own) for (said, _), own in groups.items() if _is_open(said))
    lines = [
        f"## Rows off by more than {FAR:.0%}\n",
        f"{count:,} rows, of which {open_rows:,} are not explained, or not in full.\n",
        "| paper | rows | from | to | finding |",
        "|---|---|---|---|---|",
    ]
    ordered = sorted(groups.items(), key=lambda item: (_is_open(item[0][0]), -len(item[1])))
    for (said, paper), own in ordered:
        ends = f"{min(own):+.0%} | {max(own):+.0%}"
        lines.append(f"| {_cell(paper)} | {len(own)} | {ends} | {_cell(said)} |")
    return "\n".join(lines)


def _is_open(finding: str) -> bool:
    return UNEXPLAINED in finding


def _bands() -> str:
    residuals, widened = recorded()
    held = coverage(residuals)
    factor = math.exp(held["median_width"] / 2.0)
    largest, alone = held["largest"], ""
    if largest["of_other_runs"] is not None:
        alone = (
            f" The share of runs is mostly that of one paper, {_cell(largest['paper'])}: of its "
            f"{largest['runs']:,} runs {largest['of_runs']:.0%} lie inside the bands of the other "
            f"papers, of the other runs {largest['of_other_runs']:.0%}."
        )
    return (
        "## Error bands\n\n"
        "Every answer of `plan` and `estimate` carries a band from the residuals of the nearest "
        "runs above. Distance: 1 for another maker, 1 for another device, half a year between "
        "devices, a half for another number format, a half for each doubling of devices and of "
        "parameters, a half where the plan of one alone was searched, 1 where it is known of one "
        "alone which program ran (an answer's `software` is named). Of the 60 nearest runs, at "
        "most 20 of one paper, the middle 80% make the band, which is then widened at both ends "
        f"by {widened.named:.3f} of the logarithm where the program is known and by "
        f"{widened.unnamed:.3f} where it is not, so that bands hold 80% of the runs of papers that "
        "they do not rest on, runs and papers weighing alike (conformalised quantile regression, "
        "Romano et al. 2019).\n\n"
        f"Own check, each paper held back in turn with its widening: {held['of_runs']:.0%} of "
        f"{held['runs']:,} runs lie inside, {held['of_papers']:.0%} with each of {held['papers']} "
        f"papers counted once. Half of the bands are narrower than x/÷ {factor:.2f}.{alone}"
    )


def _unseen(rows: list[Result]) -> str:
    """Tell of unseen sources beside the rows that ship, not beside a user's own."""
    shipped = any(row["file"] == _BOOK for row in rows)
    return unseen_section(recorded_results(UNSEEN_FILE)) if shipped else ""


def _skipped(rows: list[Result]) -> str:
    reasons: dict[str, int] = {}
    for row in rows:
        if row["status"] == "skipped":
            reasons[row["reason"]] = reasons.get(row["reason"], 0) + 1
    lines = ["## Rows that are not priced\n", "| rows | reason |", "|---|---|"]
    ordered = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    lines += [f"| {count} | {_cell(reason)} |" for reason, count in ordered]
    return "\n".join(lines)


def _largest(told: Result) -> list[tuple[str, Result]]:
    """Return the papers with a few runs at least, the one with most first."""
    papers = [i for i in told["by_paper"].items() if i[1]["runs"]["runs"] >= _FEWEST_RUNS]
    return sorted(papers, key=lambda item: -item[1]["runs"]["runs"])


def _run_cells(runs: Result) -> str:
    return (
        f"{runs['runs']:,} | {runs['median_abs_error']:.1%} | {runs['p90_abs_error']:.1%} | "
        f"{runs['median_time_error']:+.1%}"
    )


def _sides(errors: Result) -> str:
    runs = errors["runs"]
    return f"{runs['too_quick']} / {runs['too_slow']} | {runs['sign_test_p']:.2g}"


def _cell(text: str) -> str:
    """Return a text as a cell of a table, in which nothing is markup."""
    plain = text.replace("&", "&amp;").replace("<", "&lt;")
    return " ".join(plain.replace("|", "/").split())
