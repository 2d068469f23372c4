"""What do the page of evidence, the README's table and the file of residuals say?"""

from __future__ import annotations

import math
import re
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scalewright.catalog.layers import built_in_root
from scalewright.errors import InvalidError
from scalewright.planning.error_band import (
    FILE,
    NEAREST,
    OF_ONE_PAPER,
    SHARE,
    UNSEEN_FILE,
    Widening,
    recorded,
)
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
from scalewright.reproductions.unseen import unseen_line, unseen_section, unseen_sides

if TYPE_CHECKING:
    from collections.abc import Iterable

Result = dict[str, Any]
_START, _END = "<!-- evidence: made by `make evidence` -->", "<!-- end of evidence -->"
_BOOK, _LATER = "training.csv", "training_later.csv"
_TIMED = "timed_steps.csv"
_IN_VIEW = (
    "profiles of their programs were written",
    "lasting rates of Blackwell were taken from the timed kernels where one site's had stood",
    "attention was given the clock of products, as timed kernels say",
    "attention was given the constants of timed kernels of training where those of prompts had "
    "stood",
    "merges around a ring of context ranks were counted in the sources of programs",
    "what hosts take for an operation was set by a test of Megatron-LM that is no row",
    "what hides sums of gradients where chunks take turns was mended as the simulated step has it",
    "attention of cuDNN 8.9 was taken as slow as release notes allow",
    "what all-to-alls take from passes beside them was reckoned from compute units",
    "broadcasts were counted as NCCL's tuner does",
    "passes of eager programs were taken from kernels timed alone",
    "classes of programs were told apart by words of rows",
    "what the host does for gathers of DeepSpeed's ZeRO-3 was counted in its source with rows of "
    "FlagPerf in view",
)
"""What was changed with the errors of `training_later.csv` in view."""
_KNOWN = (
    "Narayanan et al. 2021 (Megatron-LM",
    "Korthikanti et al. 2022",
    "Smith et al. 2022 (MT-NLG",
    "Chowdhery et al. 2022 (PaLM",
    "Llama 3 Herd",
    "DeepSeek-V3 (arXiv",
    "MosaicML llm-foundry",
    "AI-Hypercomputer MaxText",
    "PyTorch torchtitan",
    "NVIDIA Megatron-Bridge performance summary",
    "MLPerf Training",
    "Bang et al. 2023 (vTrain",
)
"""How the names of papers begin that the README lists; chosen by how well known they are."""
_RELEASED = "NVIDIA Megatron-Bridge performance summary"
"""Has a page for each release, of which the README lists the newest."""
_EXCEPTION = (
    ", with one exception: two rates of Selene's network inside a job, between stages and of rings "
    "that run side by side, are read from two figures in section 5.9 of Narayanan et al. 2021. "
    "Those two are not priced; the rates bear on every row that ran on Selene, above all on Table "
    "1 of that paper.\n"
    "- A figure that told of a term counts nowhere: the memory of 70B in torchtitan on tensor "
    "ranks that are not asynchronous (`whole_copies`)."
)
_DISTANCE = """\
- 1 for a different vendor;
- 1 for a different device;
- 0.5 per year between the release years of the devices;
- 0.5 for a different number format;
- 0.5 per doubling of the number of devices;
- 0.5 per doubling of the number of parameters;
- 0.5 where the plan of one of the two alone was searched;
- 1 where the program of one of the two alone is known (of an answer: `software` is named)."""
_HELD = (
    f"\n`{_BOOK}` has the runs that the terms of the model were looked for in. No constant was "
    f"fitted to `{_LATER}` or `{_TIMED}`.\n\n"
    f"`{_TIMED}` was timed as the package's own script times it (`docs/eager-kernels.md`). What "
    "its programs keep in memory was read from code with these memories in view.\n\n"
    f"With errors of `{_LATER}` in view:\n"
)
_FEWEST_ROWS = 5
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
        "it shortens full recomputation under XLA, where most runs are predicted too fast already."
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
    """Return the README's tables with the marks around them."""
    told = summary(rows)
    runs, macro = told["runs"], told["runs"]["macro"]
    head = " | runs | median error | 90th percentile | signed median |"
    lines = [
        _START,
        "- A *run* is one measured training job. Its figures (time, MFU, TFLOP/s) count once.",
        "- The *error* of a figure is |predicted / published - 1|, in its own metric.",
        "- *Signed* errors are of the step time: below zero is optimistic, predicted too fast.",
        "- *Conventions*, or hand-written settings, are what a paper's text says beside its table, "
        "typed into the catalog.\n",
        f"| all results{head}",
        "|---|---|---|---|---|",
        f"| all runs, on {kinds(runs['devices'])} | {_run_cells(runs)} |",
        f"| {macro['papers']} papers: mean of their medians, of their 90th percentiles | | "
        f"{macro['median_abs_error']:.1%} | {macro['p90_abs_error']:.1%} | |",
        unseen_line(),
        f"\nThe last row counts in no other. {unseen_sides()}\n",
        f"| well-known papers, chosen by name{head}",
        "|---|---|---|---|---|",
    ]
    papers = told["by_paper"]
    lines += [f"| {_cell(name)} | {_run_cells(papers[name]['runs'])} |" for name in _listed(papers)]
    lines += ["\n`docs/evidence.md` has all of them.", _END]
    return "\n".join(lines)


def evidence_page(rows: list[Result], ablation: str) -> str:
    """Return the page: papers, kinds, memory, findings, bands, ablation, what is skipped."""
    told = summary(rows)
    shipped = any(row["file"] == _BOOK for row in rows)
    parts = [
        _head(told, shipped=shipped),
        _papers(told),
        _files(rows, shipped=shipped),
        _tables(rows),
        _kinds(rows),
        _far(rows),
        unseen_section(recorded_results(UNSEEN_FILE)) if shipped else "",
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
        "plans as they were.\n",
        "- *Mean error* is the mean over papers of the mean error of their runs, *median* the mean "
        "over papers of their medians: each paper counts once, also those without the term.",
        "- A name that begins with *line* is a line of the breakdown of a step: its seconds are "
        "taken off the predicted step, and nothing is priced again.",
        "- Any other name is a constant or a switch of the device, its fabric or the program: it "
        "is set to where it does nothing, and the same plan is priced again.",
        "- A term earns its place where the error grows without it. While most papers are "
        "predicted too fast, any term that takes time does.\n",
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


def _head(told: Result, *, shipped: bool) -> str:
    runs = told["runs"]
    return (
        "# Evidence\n\nMade by `make evidence` from the rows of "
        "`python/scalewright/catalog/published/`, which `scalewright reproduce` prices.\n\n"
        "- Format of the rows: `docs/evidence-format.md`. A picture: `--picture FILE.png`. Every "
        "row with all that it assumes and its terms: `--page FILE.html`.\n"
        f"- No constant is fitted to a row that counts{_EXCEPTION if shipped else '.'}\n"
        "- A *run* is one measured training job; all figures of it make one error, their mean.\n"
        "- The *error* of a figure is predicted / published - 1, in its own metric. Without a sign "
        "it is the size of that.\n"
        "- *Signed* columns are of the time of a step in every table: below zero is *optimistic*, "
        "predicted too fast, above zero *pessimistic*, predicted too slow. Of memory they are "
        "below zero where too little is predicted.\n"
        "- *p*: two-sided sign test of optimistic against pessimistic runs.\n\n"
        f"{told['rows_priced']:,} rows are priced as their source sets them, "
        f"{told['rows_searched']:,} have a field of the plan searched (a best case), "
        f"{told['rows_skipped']:,} cannot be priced. They speak of {runs['runs']:,} runs on "
        f"{kinds(runs['devices'])}: {', '.join(runs['devices'])}."
    )


def _papers(told: Result) -> str:
    lines = [
        "## Speed of a step, by run\n",
        "| paper | runs | median | 90th percentile | signed median | optimistic / pessimistic | "
        "p |",
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


def _files(rows: list[Result], *, shipped: bool) -> str:
    """Sum up the runs of each file, and what was changed with which errors in view."""
    lines = [
        "## By file\n",
        "| file | runs | median | 90th percentile | signed median | kinds of devices | "
        "papers once: median | 90th percentile |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for file in dict.fromkeys(row["file"] for row in rows):
        runs = summary(row for row in rows if row["file"] == file)["runs"]
        if runs["runs"]:
            macro = runs["macro"]
            once = f"{macro['median_abs_error']:.1%} | {macro['p90_abs_error']:.1%}"
            lines.append(
                f"| `{_cell(file)}` | {_run_cells(runs)} | {len(runs['devices'])} | {once} |"
            )
    recalled = [abs(row["error"]) for row in rows if counts(row) and row["seen"] != SEEN[0]]
    if recalled:
        lines.append(
            f"\n{len(recalled)} rows among all were recalled and not read in their source: mean "
            f"error {statistics.fmean(recalled):.1%}."
        )
    if shipped:
        lines += [_HELD, *(f"- {said}" for said in _IN_VIEW)]
    return "\n".join(lines)


def _tables(rows: list[Result]) -> str:
    lines = [
        "## Tables of five rows and more\n",
        "Errors of single figures. Mean, median and worst are in their own metric.\n",
        "| paper | table | rows | mean | median | worst | signed mean | signed median |",
        "|---|---|---|---|---|---|---|---|",
    ]
    groups: dict[tuple[str, str], list[Result]] = {}
    for row in rows:
        if counts(row) and row["kind"] != "memory":
            groups.setdefault((short(row["paper"]), row["table"]), []).append(row)
    for (paper, table), own in groups.items():
        if len(own) < _FEWEST_ROWS:
            continue
        sizes = [abs(row["error"]) for row in own]
        told = (statistics.fmean(sizes), statistics.median(sizes), max(sizes))
        times = [_signed(row) for row in own]
        signed = (statistics.fmean(times), statistics.median(times))
        cells = [f"{size:.1%}" for size in told] + [f"{size:+.1%}" for size in signed]
        lines.append(f"| {_cell(paper)} | {_cell(table)} | {len(own)} | {' | '.join(cells)} |")
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
            groups.setdefault((row["finding"], row["paper"]), []).append(_signed(row))
    count = sum(map(len, groups.values()))
    open_rows = sum(len(own) for (said, _), own in groups.items() if _is_open(said))
    lines = [
        f"## Rows off by more than {FAR:.0%}\n",
        f"{count:,} rows, of which {open_rows:,} are not explained, or not in full. The bound is "
        "in a row's own metric; from and to are signed, of the time of a step.\n",
        "| paper | rows | from | to | finding |",
        "|---|---|---|---|---|",
    ]
    ordered = sorted(groups.items(), key=lambda item: (_is_open(item[0][0]), -len(item[1])))
    for (said, paper), own in ordered:
        ends = f"{min(own):+.0%} | {max(own):+.0%}"
        lines.append(f"| {_cell(paper)} | {len(own)} | {ends} | {_cell(said)} |")
    return "\n".join(lines)


def _signed(row: Result) -> float:
    """Return a row's error of the step time, below zero where it is too fast; memory as it is."""
    return row["error"] if row["kind"] == "memory" else row["time_ratio"] - 1.0


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
        "runs above. The distance of two runs is the sum of\n\n"
        f"{_DISTANCE}\n\n"
        f"Of the {NEAREST} nearest runs, at most {OF_ONE_PAPER} of one paper, the middle "
        f"{SHARE:.0%} make the band, which is then widened at both ends "
        f"by {widened.named:.3f} of the logarithm where the program is known and by "
        f"{widened.unnamed:.3f} where it is not, so that bands hold {SHARE:.0%} of the runs of "
        "papers that they do not rest on, runs and papers weighing alike (conformalised quantile "
        "regression, Romano et al. 2019).\n\n"
        f"Own check, each paper held back in turn with its widening: {held['of_runs']:.0%} of "
        f"{held['runs']:,} runs lie inside, {held['of_papers']:.0%} with each of {held['papers']} "
        f"papers counted once. Half of the bands are narrower than x/÷ {factor:.2f}.{alone} Of the "
        f"runs, each paper counted once, {held['longer_than_middle']:.0%} take longer than the "
        "middle of their band, which an answer names, too."
    )


def _skipped(rows: list[Result]) -> str:
    reasons: dict[str, int] = {}
    for row in rows:
        if row["status"] == "skipped":
            reasons[row["reason"]] = reasons.get(row["reason"], 0) + 1
    lines = ["## Rows that are not priced\n", "| rows | reason |", "|---|---|"]
    ordered = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    lines += [f"| {count} | {_cell(reason)} |" for reason, count in ordered]
    return "\n".join(lines)


def _listed(papers: Result) -> list[str]:
    """Return the papers that the README lists, those of one release alone the newest."""
    priced = [name for name, errors in papers.items() if errors["runs"]["runs"]]
    listed: list[str] = []
    for known in _KNOWN:
        own = [name for name in priced if name.startswith(known)]
        listed += sorted(own, key=_release)[-1:] if known == _RELEASED else own
    return listed


def _release(name: str) -> list[int]:
    """Return the numbers of a release behind a paper's name."""
    return [int(number) for number in re.findall(r"\d+", name.removeprefix(_RELEASED))]


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
