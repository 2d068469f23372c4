"""Where does a search stand that was killed, and is it the one that is asked for?"""

from __future__ import annotations

import json
from contextlib import suppress
from hashlib import sha256
from time import perf_counter
from typing import TYPE_CHECKING, Any, cast

from scalewright import _engine
from scalewright.errors import InvalidError, ScalewrightError
from scalewright.searching.files import clear_leftovers, need_room, place_of, replacing
from scalewright.searching.state import State

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scalewright.searching.question import Question

FORMAT = 1
"""Version of the file; it grows when a field changes its meaning."""

_LEAST_S = 1.0
_MOST_DIFFERENCES = 3
_ABSENT = "nothing"


class Checkpoint:
    """A file that holds where a search stands, written as a whole or not at all."""

    def __init__(self, path: object, question: Question) -> None:
        """Read the file where there is one, write it where there is none.

        It is there before the space is listed, so that what forbids to write it shows before any
        work, and so that a search that is stopped while its space is listed can go on from it.

        Raises:
            InvalidError: The file is broken, is of another search or engine, or cannot be written.
        """
        self._place = place_of("checkpoint", path)
        job = question.to_dict()
        self._asked: dict[str, Any] = {
            "engine_version": _engine.version(),
            "space": job.pop("space"),
            "limits": job.pop("limits"),
            "job": job,
        }
        self._listed: dict[str, Any] = {"units": None, "waves": None}
        self._start = self._written = perf_counter()
        self.before_s = 0.0
        self._held = self._read()
        self.report: str | None = None
        if self._held is not None:
            self.before_s, self.report = self._told(self._held)
        if self.report is None:
            clear_leftovers(self._place)
            self._claim()

    def take_up(self, search: _engine.Search) -> State:
        """Return the state from which to go on, now that the space is listed, and write it.

        Raises:
            InvalidError: The file's state is not one of this search, or cannot be written.
        """
        self._listed = {"units": search.units, "waves": list(search.waves)}
        state = State() if self._held is None else self._state(self._held, search)
        self._write(state, None)
        return state

    def withdraw(self) -> None:
        """Remove the file of a search that turned out to be none, unless others wrote it."""
        if self._held is None:
            with suppress(OSError):
                self._place.unlink(missing_ok=True)

    def keep(self, state: State) -> None:
        """Write a state, unless one was written within the last second."""
        if perf_counter() - self._written >= _LEAST_S:
            self._write(state, None)

    def end(self, state: State, report: str | None) -> None:
        """Write the last state of this run, with the answer where there is one."""
        self._write(state, report)

    def elapsed_s(self) -> float:
        """Return the seconds that the search took so far, over all runs."""
        return self.before_s + perf_counter() - self._start

    def _claim(self) -> None:
        """Begin the file, or see that the one that is there can be replaced."""
        if self._held is None:
            self._write(State(), None)
        else:
            need_room("checkpoint", self._place)

    def _write(self, state: State, report: str | None) -> None:
        held = {
            **self._asked,
            **self._listed,
            "elapsed_s": self.elapsed_s(),
            "done": state.done,
            "before": state.before,
            "within": state.within,
            "start": state.start,
            "report": report,
        }
        text = json.dumps(held, sort_keys=True)
        head = {"scalewright_checkpoint": FORMAT, "sha256": _sum(text)}
        with replacing("checkpoint", self._place) as beside:
            beside.write_text(f"{json.dumps(head)}\n{text}\n", encoding="utf-8")
        self._written = perf_counter()

    def _read(self) -> dict[str, Any] | None:
        try:
            text = self._place.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise self._broken(str(error)) from error
        return self._checked(text)

    def _checked(self, text: str) -> dict[str, Any]:
        """Return what the file holds, if it is whole and of this search."""
        head_text, _, body = text.partition("\n")
        head, body = _object(head_text), body.removesuffix("\n")
        version = head.get("scalewright_checkpoint")
        if version is None:
            reason = "it is no checkpoint"
            raise self._broken(reason)
        if version != FORMAT:
            raise self._other([f"format: the file has {version}, this version {FORMAT}"])
        if head.get("sha256") != _sum(body):
            reason = "its checksum is not that of its content"
            raise self._broken(reason)
        held = _object(body)
        self._need_same(held, self._asked)
        return held

    def _need_same(self, held: dict[str, Any], ours: dict[str, Any]) -> None:
        theirs = {name: held.get(name) for name in ours}
        if differences := list(_differences("", theirs, ours)):
            raise self._other(differences)

    def _told(self, held: dict[str, Any]) -> tuple[float, str | None]:
        """Return the seconds that a search took so far, and its answer where there is one."""
        try:
            return float(held["elapsed_s"]), held["report"]
        except (KeyError, TypeError, ValueError) as error:
            raise self._broken(str(error)) from error

    def _state(self, held: dict[str, Any], search: _engine.Search) -> State:
        """Return which units are walked by a file, and what they found."""
        # a search that was stopped while its space was listed has walked none of it
        if held.get("units") is not None:
            self._need_same(held, self._listed)
        try:
            done = tuple((int(start), int(end)) for start, end in held["done"])
            state = State(done, held["before"], held["within"], held["start"])
            state.part(search)
        except (KeyError, TypeError, ValueError, ScalewrightError) as error:
            raise self._broken(str(error)) from error
        return state

    def _broken(self, reason: str) -> InvalidError:
        message = (
            f"checkpoint: '{self._place}' cannot be read ({reason}); "
            "allowed: a file that a search wrote, or one that does not exist"
        )
        return InvalidError(message)

    def _other(self, differences: list[str]) -> InvalidError:
        more = len(differences) - _MOST_DIFFERENCES
        rest = [f"{more} more fields"] if more > 0 else []
        listed = "; ".join([*differences[:_MOST_DIFFERENCES], *rest])
        message = (
            f"checkpoint: '{self._place}' is of another search: {listed}; "
            "allowed: the file of this search, or one that does not exist"
        )
        return InvalidError(message)


def _sum(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def _object(text: str) -> dict[str, Any]:
    """Return the JSON object that a text holds; an empty one for any other text."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _differences(path: str, theirs: object, ours: object) -> Iterator[str]:
    """Say field by field where a file differs from what is asked."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        left, right = cast("dict[str, Any]", theirs), cast("dict[str, Any]", ours)
        for name in sorted({*left, *right}):
            inner = f"{path}.{name}" if path else name
            yield from _differences(inner, left.get(name, _ABSENT), right.get(name, _ABSENT))
    elif theirs != ours:
        told = path.removeprefix("limits.")
        yield f"{told}: the file has {theirs!r:.60}, asked is {ours!r:.60}"
