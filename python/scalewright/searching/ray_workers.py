"""How do the cores of a Ray cluster walk units, some of which are lost on the way?"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

from scalewright import _engine
from scalewright.errors import ScalewrightError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from scalewright.searching.question import Question
    from scalewright.searching.state import Piece
    from scalewright.searching.walking import Incumbent, Progress

_GROUP_S = 1.0
"""What a worker that dies loses, against some milliseconds that handing a group out costs."""
_IN_FLIGHT = 2
"""Groups for each core: one is walked while the next is on its way."""
_GROWTH = 4
_TRIES = 5
_LOOK_S = 0.2
_COUNT_S = 1.0
"""The least time between two counts of the cores."""
_SHARE_S = 0.5
"""The least time between two incumbents that are put where workers read them."""


@dataclass(frozen=True)
class _Group:
    """Units that a worker walks at one time."""

    first: int
    last: int
    tries: int = 1


class RayWorkers:
    """The cores of a Ray cluster, one group of units for each at a time."""

    in_waves = False

    def __init__(self, ray: Any, question: Question) -> None:  # noqa: ANN401 - a package without types
        """Hand out the units of a search to the workers of a connected cluster."""
        self._ray = ray
        self._walk = ray.remote(num_cpus=1, max_retries=_TRIES)(_worker())
        self._asked = ray.put(
            (
                _engine.version(),
                question.model,
                question.system,
                question.training,
                question.memory_margin,
                question.space,
                question.limits,
            )
        )
        self._counted = 1, -_COUNT_S
        self._largest = 1
        self._shared: tuple[str | None, Any] = (None, None)
        self._shared_at = 0.0

    def walk(
        self, left: Sequence[tuple[int, int]], incumbent: Incumbent, tell: Progress | None
    ) -> Generator[Piece]:
        """Yield pieces as workers bring them; groups that are lost go out again."""
        del tell  # workers bring a group a second: what is yielded is progress enough
        ray, waiting, flying = self._ray, [*left], dict[Any, _Group]()
        again: list[_Group] = []
        try:
            while waiting or again or flying:
                cores = self._cores()
                while (waiting or again) and len(flying) < _IN_FLIGHT * cores:
                    group = again.pop() if again else self._cut(waiting, cores)
                    flying[self._send(group, incumbent)] = group
                for handle in self._ready(list(flying)):
                    group = flying.pop(handle)
                    brought = self._brought(handle, group)
                    if isinstance(brought, _Group):
                        again.append(brought)
                    else:
                        yield group.first, group.last, brought
        finally:
            for handle in flying:
                ray.cancel(handle)

    def _ready(self, flying: list[Any]) -> list[Any]:
        """Wait a little for groups that workers bring, and return all that are there."""
        ready, others = self._ray.wait(flying, num_returns=1, timeout=_LOOK_S)
        if ready and others:
            ready += self._ray.wait(others, num_returns=len(others), timeout=0)[0]
        return ready

    def _cores(self) -> int:
        """Return how many cores the cluster has; nodes come and go."""
        count, at = self._counted
        now = perf_counter()
        if now - at > _COUNT_S:
            count = max(int(self._ray.cluster_resources().get("CPU", 0)), 1)
            self._counted = count, now
        return count

    def _cut(self, waiting: list[tuple[int, int]], cores: int) -> _Group:
        """Take units of about a second; fewer near the end, so that all cores end together."""
        first, end = waiting[0]
        left = sum(last - start for start, last in waiting)
        even = -(-left // (_IN_FLIGHT * cores))
        last = min(first + max(min(self._largest, even), 1), end)
        waiting[0] = (last, end)
        if last == end:
            waiting.pop(0)
        return _Group(first, last)

    def _send(self, group: _Group, incumbent: Incumbent) -> Any:  # noqa: ANN401 - as above
        known, now = incumbent(), perf_counter()
        if known is not self._shared[0] and now - self._shared_at >= _SHARE_S:
            self._shared = known, self._ray.put(known)
            self._shared_at = now
        return self._walk.remote(self._asked, group.first, group.last, self._shared[1])

    def _brought(self, handle: Any, group: _Group) -> str | _Group:  # noqa: ANN401 - as above
        """Return what a worker found, or the group that has to go out again."""
        errors = self._ray.exceptions
        try:
            part, refused, elapsed_s = self._ray.get(handle)
        except errors.RayTaskError as error:
            message = f"cluster: a worker failed: {error.cause!r:.500}"
            raise ScalewrightError(message) from error
        except errors.RayError as error:
            if group.tries >= _TRIES:
                message = (
                    f"cluster: units {group.first} to {group.last} were lost with their workers "
                    f"{group.tries} times, the last time so: {error!s:.300}"
                )
                raise ScalewrightError(message) from error
            return _Group(group.first, group.last, group.tries + 1)
        if refused is not None:
            raise ScalewrightError(refused)
        self._learn(group.last - group.first, elapsed_s)
        return part

    def _learn(self, units: int, elapsed_s: float) -> None:
        """Size the next groups by the pace of this one."""
        wanted = int(units * _GROUP_S / max(elapsed_s, 1e-6))
        self._largest = max(1, min(wanted, self._largest * _GROWTH))


def _worker() -> Callable[..., tuple[str | None, str | None, float]]:
    """Return what workers run.

    It is sent as code, not as a name: workers need nothing but the engine, and one with another
    version says so. The search that a worker walked last stays with it.
    """
    held: dict[tuple[object, ...], Any] = {}

    def walk(
        asked: tuple[Any, ...], first: int, last: int, incumbent: str | None
    ) -> tuple[str | None, str | None, float]:
        """Return a part and its seconds, or why this worker cannot walk."""
        import os
        from time import perf_counter

        os.environ.setdefault("RAYON_NUM_THREADS", "1")  # a task is given one core
        try:
            from scalewright import _engine as engine
        except ImportError as error:
            return None, f"cluster: a worker has no scalewright ({error})", 0.0
        version, model, system, training, memory_margin, space, limits = asked
        if engine.version() != version:
            theirs = f"scalewright {engine.version()}"
            return None, f"cluster: a worker has {theirs}; allowed: {version}, as here", 0.0
        if asked not in held:
            held.clear()
            parts = engine.Workload(model), engine.Cluster(system)
            job = engine.Job(*parts, training, memory_margin)
            held[asked] = engine.Search(job, space, limits)
        start = perf_counter()
        part = held[asked].run(first, last, incumbent)
        return part, None, perf_counter() - start

    return walk
