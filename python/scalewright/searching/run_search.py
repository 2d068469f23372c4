"""What is the answer to a search that may be long, be killed, or be spread over machines?"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

from scalewright.config import DTYPE
from scalewright.errors import InvalidError, ScalewrightError
from scalewright.searching.checkpoint import Checkpoint
from scalewright.searching.interrupts import defer_first_interrupt
from scalewright.searching.ray_address import connected, ray_address
from scalewright.searching.ray_workers import RayWorkers
from scalewright.searching.state import State
from scalewright.searching.table import Table
from scalewright.searching.walking import LocalWorkers, Walk

if TYPE_CHECKING:
    from scalewright import _engine
    from scalewright.searching.question import Question
    from scalewright.searching.walking import Progress


@dataclass(frozen=True)
class SearchExecution:
    """How a search is carried out; the plans that it finds do not depend on it."""

    checkpoint: object = None
    """The file from which it goes on, and that it keeps up to date."""
    rows: object = None
    """The file for every plan that is legal and fits."""
    cluster: object = None
    """The Ray cluster whose cores work, as `ray://host:port`."""
    ray_address: object = None
    """The same, as `host:port`, `auto` or `local`."""

    def check(self) -> str | None:
        """Refuse what contradicts itself; return the address of the cluster."""
        address = ray_address(self.cluster, self.ray_address)
        others = {"checkpoint": self.checkpoint, "a cluster": address}
        for name, value in others.items():
            if self.rows is not None and value is not None:
                message = (
                    f"rows: got it with {name}; allowed: alone, since one process writes "
                    "the file, from its beginning to its end"
                )
                raise InvalidError(message)
        return address


def find(
    question: Question, execution: SearchExecution, progress: Progress | None = None
) -> dict[str, Any]:
    """Return the answer to a search, or what is known of it when Ctrl-C comes.

    Beside what the engine tells, `units` and `units_walked` count the parts of the space, `stopped`
    says whether Ctrl-C came before the end, and `plans_written` counts the rows of a file that was
    asked for, none where it was not finished.

    Raises:
        ScalewrightError: A file or a cluster cannot be used, or the options contradict each other.
    """
    address = execution.check()
    table = None if execution.rows is None else Table(execution.rows)
    if table is not None and DTYPE in json.loads(question.space):
        message = "rows: got it with dtype; allowed: one precision, that of the training"
        raise InvalidError(message)
    start = perf_counter()
    kept = None if execution.checkpoint is None else Checkpoint(execution.checkpoint, question)
    if kept is not None and kept.report is not None:
        return {**json.loads(kept.report), "elapsed_s": kept.before_s}
    search, stopped = _listed(question, kept)
    state, keep = (State(), _forget) if kept is None else (kept.take_up(search), kept.keep)
    walk = Walk(search, state, keep, progress)
    if not stopped:
        _walked(walk, search, question, address)
    found = _told(question, search, walk.state, progress, stopped=stopped)
    if kept is not None:
        kept.end(walk.state, None if found["stopped"] else json.dumps(found))
    found["elapsed_s"] = perf_counter() - start if kept is None else kept.elapsed_s()
    return found if table is None else _with_rows(found, table, search, progress)


def _listed(question: Question, kept: Checkpoint | None) -> tuple[_engine.Search, bool]:
    """Return the search with its space listed, and whether Ctrl-C came meanwhile.

    The engine lists a space to its end. So Ctrl-C waits for that, and the answer then has its
    bound, as it has at any later moment.
    """
    try:
        with defer_first_interrupt() as held:
            search = question.search()
    except ScalewrightError:
        if kept is not None:
            kept.withdraw()
        raise
    return search, held.pressed


def _walked(walk: Walk, search: _engine.Search, question: Question, address: str | None) -> None:
    """Walk by the cores of this process, or of the cluster at an address."""
    if address is None:
        walk.go(LocalWorkers(search))
    else:
        _spread(walk, address, question)


def _forget(state: State) -> None:
    """Keep no state; there is no file for it."""
    del state


def _spread(walk: Walk, address: str, question: Question) -> None:
    """Walk on the cores of a cluster."""
    with connected(address) as ray:
        try:
            walk.go(RayWorkers(ray, question))
        except (ray.exceptions.RayError, ConnectionError) as error:
            message = f"cluster: the connection to {address!r:.100} was lost: {error!s:.300}"
            raise ScalewrightError(message) from error


def _told(
    question: Question,
    search: _engine.Search,
    state: State,
    progress: Progress | None,
    *,
    stopped: bool,
) -> dict[str, Any]:
    """Return the engine's report of a state, with how far it is."""
    part, walked = state.part(search), state.walked()
    if part is None:
        part = search.run(0, 0)
    left = walked < search.units
    found: dict[str, Any] | None = None
    if left or not stopped:
        with suppress(KeyboardInterrupt):
            found = json.loads(search.report(part, progress=progress))
    counted = {"units": search.units, "units_walked": walked}
    if found is None:
        # all that is not known then is what plans with tensors in other tiers may gain
        return {**_without_offload(question, search, part), **counted, "stopped": True}
    return {**found, **counted, "stopped": left or found["stopped"]}


def _without_offload(question: Question, search: _engine.Search, part: str) -> dict[str, Any]:
    """Return what is known where plans with tensors in other tiers were left half tried."""
    limits = json.dumps({**json.loads(question.limits), "offload": "never"})
    found = json.loads(replace(question, limits=limits).search().report(part))
    # only searches for the least time try them, and none of them beats the bound of all units
    return {**found, "proven": False, "bound": {"step_time_s": search.bound(0)}}


def _with_rows(
    found: dict[str, Any], table: Table, search: _engine.Search, progress: Progress | None
) -> dict[str, Any]:
    """Return the answer with how many plans a file holds, once it is written."""
    if found["stopped"]:
        return {**found, "plans_written": None}
    try:
        return {**found, "plans_written": table.write(search, progress)}
    except KeyboardInterrupt:
        return {**found, "stopped": True, "plans_written": None}
