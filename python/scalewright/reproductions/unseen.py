"""How near are predictions for sources that nobody wrote conventions for?"""

from __future__ import annotations

import math
import statistics
from typing import Any

from scalewright.planning.error_band import Residual, Widening, band_of, recorded, unseen

Result = dict[str, Any]
_TOLD = (
    "Readers typed these rows off tables, posts and users' reports, without sight of a prediction "
    "and without choosing by one. Nobody wrote conventions for their sources: classes of programs "
    "(`programs.toml`) and words alone tell what ran, but for a few whose names fall under the "
    "conventions of a program's own pages, and what a row leaves open is a best case. "
    "They came in twelve lots. As first priced, medians of sources were 33% at their mean and 23% "
    "in the middle, 40 and 33% (users' reports of slow runs), 27 and 13%, 25 and 19%, 28 and 21%, "
    "50 and 40% (tables as printed), 28 and 27%, 35 and 26% (logs of repositories), 26 and 23%, "
    "40 and 39% (cells as printed, of which seven of thirty sources could be read), 39 and 31% "
    "(28 of 39 sources, small machines and models among them), 57 and 25% (five of 19 sources, "
    "V100 in a format that is not said among them); "
    "twelve rows of Qwen3.5 and Qwen3-Next came last, when delta rules could be priced, as "
    "then could seven of earlier lots, and the host time of such rules was set in their view; "
    "what was mended then, spellings, classes of programs and an entry of MareNostrum 5, had the "
    "errors of the lot in view. No finding is "
    "written for a row here, and none counts in a table above, but bands rest on them, too: "
    "whoever names no software gets predictions like these."
)


def unseen_section(rows: list[Result]) -> str:
    """Return the section of the page: sources, and how many of their runs bands hold.

    Args:
        rows: The rows of `unseen.csv` with their residuals.
    """
    every, widened = recorded()
    lines = [
        "## Sources that nobody wrote conventions for\n",
        f"{_TOLD} `scalewright reproduce --rows` prices "
        "`python/scalewright/catalog/published/unseen.csv` again. Errors of the time of a step.\n",
        "| source | runs | median | signed median | inside the band of others |",
        "|---|---|---|---|---|",
    ]
    medians: list[float] = []
    shares: list[float] = []
    sources = _sources()
    for paper, runs in sources.items():
        errors = [_error(run) for run in runs]
        medians.append(statistics.median(map(abs, errors)))
        others = [run for run in every if run.paper != paper]
        held = [_inside(run, others, widened) for run in runs]
        shares.append(statistics.fmean(held))
        lines.append(
            f"| {paper.replace('|', '/')} | {len(runs)} | {medians[-1]:.0%} | "
            f"{statistics.median(errors):+.0%} | {sum(held)} |"
        )
    count = sum(map(len, sources.values()))
    of_runs = statistics.fmean(shares, [len(runs) for runs in sources.values()])
    skipped = sum(row["status"] == "skipped" for row in rows)
    mean, middle = statistics.fmean(medians), statistics.median(medians)
    lines.append(
        f"\n{count} runs of {len(sources)} sources; {skipped} rows lack what a price needs. "
        f"Medians are {mean:.0%} at their mean and {middle:.0%} in the middle; bands that rest on "
        f"other sources hold {of_runs:.0%} of the runs, {statistics.fmean(shares):.0%} with each "
        "source counted once."
    )
    return "\n".join(lines)


def unseen_line() -> str:
    """Return the line of the README's table: the errors of sources, each at its median, once."""
    medians = [statistics.median(map(_error, runs)) for runs in _sources().values()]
    sizes = [statistics.median(abs(_error(r)) for r in runs) for runs in _sources().values()]
    high = statistics.quantiles(sizes, n=10)[-1]
    return (
        f"| apart, {len(sizes)} sources without conventions (`docs/evidence.md`), each once at its "
        f"median | {len(unseen())} | {statistics.median(sizes):.1%} | {high:.1%} | "
        f"{statistics.median(medians):+.1%} |"
    )


def _inside(run: Residual, others: list[Residual], widened: Widening) -> bool:
    return band_of(run.traits, others).misses(run) <= widened.of(run.traits)


def _sources() -> dict[str, list[Residual]]:
    found: dict[str, list[Residual]] = {}
    for run in unseen():
        found.setdefault(run.paper, []).append(run)
    return found


def _error(run: Residual) -> float:
    """Return predicted over measured time less one."""
    return math.exp(-run.log_ratio) - 1.0
