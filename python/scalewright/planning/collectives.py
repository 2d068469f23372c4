"""How long does a collective take on groups of a system's devices, and by which algorithm?"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from scalewright import _engine
from scalewright.config import json_text, need, need_count, need_progress
from scalewright.errors import InvalidError
from scalewright.planning.arguments import counts, floats, machines_of, names
from scalewright.planning.pickling import PickledByFields
from scalewright.planning.stamp import Answer, plain_values

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np
    from numpy.typing import ArrayLike, DTypeLike, NDArray

    from scalewright.planning.inputs import System

    Floats = NDArray[np.float64]
    Words = NDArray[np.str_]
    Progress = Callable[[int, int], Any]


_COLUMNS = {
    "bytes": "buffer_bytes",
    "ranks": "ranks",
    "time_s": "time_s",
    "algorithm_bandwidth_bytes_per_s": "algorithm_bandwidth_bytes_per_s",
    "bus_bandwidth_bytes_per_s": "bus_bandwidth_bytes_per_s",
    "algorithm": "algorithm",
    "protocol": "protocol",
    "runner_up": "runner_up",
    "runner_up_protocol": "runner_up_protocol",
    "runner_up_time_s": "runner_up_time_s",
    "lower_bound_s": "lower_bound_s",
    "relative_gap": "relative_gap",
    "binding": "binding",
    "binding_level": "binding_level",
}
"""What a table of JSON says of a size, and where an answer has it."""


@dataclass(frozen=True)
class Crossover:
    """A buffer size at which another algorithm or protocol takes the lead.

    Attributes:
        bytes: Size of the buffer from which on the later line is the quicker.
        before: Wins below, as `ring / simple`.
        after: Wins above.
    """

    bytes: float
    before: str
    after: str


@dataclass(frozen=True)
class Line:
    """One algorithm under one protocol on one group: `fixed_s + bytes * seconds_per_byte`.

    Attributes:
        algorithm: Its name, as `ring`.
        protocol: The library's protocol, as `simple`.
        fixed_s: Seconds that no byte makes.
        seconds_per_byte: Seconds of a byte of the buffer.
    """

    algorithm: str
    protocol: str
    fixed_s: float
    seconds_per_byte: float


@dataclass(frozen=True, eq=False)
class Collective(Answer):
    """Times of a collective and why they are so; every array has the shape of the arguments.

    Only the times are computed at once; the rest follows when it is first asked for. NumPy takes
    the answer itself for its array of times.

    Attributes:
        name: The collective, as `all_reduce`.
        buffer_bytes: Full buffers as nccl-tests counts them.
        ranks: Ranks of the group.
        time_s: Seconds of the quickest algorithm, one for each element of what was asked.
    """

    name: str
    buffer_bytes: Floats
    ranks: NDArray[np.uint32]
    time_s: Floats
    _asked: _EngineArguments

    def __array__(
        self, dtype: DTypeLike | None = None, *, copy: bool | None = None
    ) -> NDArray[Any]:
        """Return the times."""
        import numpy as np

        return np.array(self.time_s, dtype=dtype, copy=copy)

    @property
    def algorithm(self) -> Words:
        """Return the names of the fastest algorithms, empty where nothing is to be done."""
        return self._named("algorithm")

    @property
    def protocol(self) -> Words:
        """Return the protocols of the fastest algorithms."""
        return self._named("protocol")

    @property
    def runner_up(self) -> Words:
        """Return the algorithms that come second, empty where there is no other."""
        return self._named("runner_up")

    @property
    def runner_up_protocol(self) -> Words:
        """Return the protocols of those that come second."""
        return self._named("runner_up_protocol")

    @property
    def runner_up_time_s(self) -> Floats:
        """Return the times of those that come second, infinite where there is no other."""
        return self._shaped(self._choices["runner_up_time_s"])

    @property
    def lower_bound_s(self) -> Floats:
        """Return the times that no algorithm on this fabric can beat."""
        return self._shaped(self._choices["lower_bound_s"])

    @cached_property
    def relative_gap(self) -> Floats:
        """Return time over lower bound, less one; infinite where the bound is zero."""
        import numpy as np

        bound = self.lower_bound_s
        quotient = np.divide(self.time_s, bound, out=np.full_like(bound, np.inf), where=bound > 0.0)
        return np.where(self.time_s > 0.0, quotient - 1.0, 0.0)

    @property
    def binding(self) -> Words:
        """Return what most of the time goes into: latency, injection, bisection or memory."""
        return self._named("binding")

    @property
    def binding_level(self) -> Words:
        """Return the names of the fabric levels that bind."""
        import numpy as np

        levels = np.array([*self._choices["levels"], ""])
        codes = np.minimum(self._choices["level"], len(levels) - 1)
        return self._shaped(levels[codes])

    @cached_property
    def algorithm_bandwidth_bytes_per_s(self) -> Floats:
        """Return nccl-tests' algbw: buffer over time, zero where no time or no bytes pass."""
        import numpy as np

        zeros = np.zeros_like(self.time_s)
        if self._asked.collective == "barrier":
            return zeros
        return np.divide(self.buffer_bytes, self.time_s, out=zeros, where=self.time_s > 0.0)

    @cached_property
    def bus_bandwidth_bytes_per_s(self) -> Floats:
        """Return nccl-tests' busbw: algbw times the factor that makes it comparable with a link."""
        factors = _engine.bus_factors(self._asked.collective, self.ranks.ravel())
        return self.algorithm_bandwidth_bytes_per_s * self._shaped(factors)

    def plain(self) -> dict[str, Any]:
        """Return the answer alone, ready for JSON: a table for each size.

        Of a single group also its lines; None stands for what has no end.
        """
        columns = {name: getattr(self, of).ravel().tolist() for name, of in _COLUMNS.items()}
        rows = zip(*columns.values(), strict=True)
        single = self._asked.is_one_group()
        return {
            "collective": self.name,
            "ranks": int(self._asked.ranks[0]) if single else None,
            **self._asked.rules(),
            "sizes": [plain_values(dict(zip(columns, row, strict=True))) for row in rows],
            "crossovers": plain_values(self.crossovers()) if single else None,
            "lines": plain_values(self.lines()) if single else None,
        }

    def crossovers(self) -> list[Crossover]:
        """Return the sizes at which the winner changes, from the smallest.

        Raises:
            InvalidError: The answer is about more than one group.
        """
        return [
            Crossover(found["bytes"], _spelt(found["before"]), _spelt(found["after"]))
            for found in self._lines["crossovers"]
        ]

    def lines(self) -> list[Line]:
        """Return all that competes on the group, losers at every size included.

        Raises:
            InvalidError: The answer is about more than one group.
        """
        return [Line(**line) for line in self._lines["lines"]]

    @cached_property
    def _choices(self) -> dict[str, Any]:
        return self._asked.choices()

    @cached_property
    def _lines(self) -> dict[str, Any]:
        return self._asked.lines()

    def _named(self, column: str) -> Words:
        import numpy as np

        return self._shaped(np.array(self._choices["names"])[self._choices[column]])

    def _shaped(self, flat: NDArray[Any]) -> NDArray[Any]:
        return flat.reshape(self.time_s.shape)


@dataclass(frozen=True)
class _EngineArguments(PickledByFields):
    """The arguments as the engine takes them."""

    machines: System
    collective: str
    request: str
    buffers: Floats
    ranks: NDArray[np.uint32]
    bandwidths: Floats | None
    progress: Progress | None

    def is_one_group(self) -> bool:
        """Say whether all sizes are of the same ranks at the same rates."""
        return self.ranks.size == 1 and (self.bandwidths is None or self.bandwidths.size == 1)

    def rules(self) -> dict[str, object]:
        """Return distance between ranks, the rate asked for, and whether inputs are replaced."""
        asked = json.loads(self.request)
        rates = self.bandwidths
        one = None if rates is None or rates.size != 1 else float(rates[0])
        return {
            "stride": asked["stride"],
            "level": asked["level"],
            "bandwidth_bytes_per_s": one,
            "in_place": asked["in_place"],
        }

    def times(self) -> Floats:
        """Return the times."""
        return _engine.collective_times(
            self.machines.cluster,
            self.request,
            self.buffers,
            self.ranks,
            self.bandwidths,
            progress=self.progress,
        )

    def choices(self) -> dict[str, Any]:
        """Return winners, runners-up, limits and bounds."""
        return _engine.collective_choices(
            self.machines.cluster,
            self.request,
            self.buffers,
            self.ranks,
            self.bandwidths,
            progress=self.progress,
        )

    def lines(self) -> dict[str, Any]:
        """Return lines and crossovers of the one group.

        Raises:
            InvalidError: There are several.
        """
        rates = self.bandwidths
        if not self.is_one_group():
            message = "ranks, bandwidth_bytes_per_s: got arrays; allowed: one group, for its lines"
            raise InvalidError(message)
        rate = None if rates is None else float(rates[0])
        ranks = int(self.ranks[0])
        return json.loads(
            _engine.collective_lines(self.machines.cluster, self.request, ranks, rate)
        )


def collective(
    name: str,
    buffer_bytes: ArrayLike,
    system: System | str,
    ranks: ArrayLike | None = None,
    *,
    stride: int = 1,
    bandwidth_bytes_per_s: ArrayLike | None = None,
    level: str | None = None,
    algorithms: str | Sequence[str] | None = None,
    forbid: str | Sequence[str] | None = None,
    protocol: str | None = None,
    in_place: bool = False,
    progress: Progress | None = None,
) -> Collective:
    """Return the times of a collective; buffers, ranks and bandwidths broadcast as in NumPy.

    Args:
        name: `all_reduce`, `reduce_scatter`, `all_gather`, `all_to_all`, `send_receive`,
            `broadcast`, `reduce`, `gather`, `scatter` or `barrier`.
        buffer_bytes: Full buffers as in nccl-tests.
        system: The machines, or the catalog name of a system with as many devices as are needed.
        ranks: Members of the group; all devices where left out.
        stride: Distance between neighbours of the group.
        bandwidth_bytes_per_s: Rates of one level of the fabric, per device and direction, in the
            place of the catalog's.
        level: Name of that level; the outermost that a group crosses where left out.
        algorithms: Algorithms that compete, as `halving_doubling` or `parameter_server:4`, whether
            or not the fabric's library has them; left out: what the library has.
        forbid: Algorithms that may not run.
        protocol: The one protocol that may run: `low_latency` (`LL`), `low_latency_128` (`LL128`)
            or `simple`; left out: the fastest for each size.
        in_place: True where results take the place of inputs, so that no rank copies its own part.
        progress: Called with the sizes done and the sizes in all.

    Raises:
        ScalewrightError: Wrong name, a group that leaves the system, an algorithm that cannot
            run on it, a size or rate that is none, or shapes that do not broadcast.
    """
    import numpy as np

    need_progress(progress)
    need("collective", name, str, "a name, as all_reduce")
    stride = need_count("stride", stride)
    need("in_place", in_place, bool, "true or false")
    buffers = floats("buffer_bytes", buffer_bytes)
    given = None if ranks is None else counts(ranks)
    machines = machines_of(system, given, stride)
    members = np.array(machines.devices, np.uint32) if given is None else given
    rates = None
    if bandwidth_bytes_per_s is not None:
        rates = floats("bandwidth_bytes_per_s", bandwidth_bytes_per_s)
    arrays = [buffers, members] if rates is None else [buffers, members, rates]
    try:
        shape = np.broadcast_shapes(*(array.shape for array in arrays))
    except ValueError as error:
        shapes = ", ".join(str(array.shape) for array in arrays)
        message = (
            f"buffer_bytes, ranks, bandwidth_bytes_per_s: got shapes {shapes}; allowed: {error}"
        )
        raise InvalidError(message) from error
    request = {
        "collective": name,
        "stride": stride,
        "level": level,
        "algorithms": names("algorithms", algorithms),
        "forbid": names("forbid", forbid),
        "protocol": protocol,
        "in_place": in_place,
    }
    asked = _EngineArguments(
        machines,
        name,
        json_text("", request),
        np.ascontiguousarray(np.broadcast_to(buffers, shape)).ravel(),
        _flat(members, shape),
        None if rates is None else _flat(rates, shape),
        progress,
    )
    return Collective(
        name=name,
        buffer_bytes=asked.buffers.reshape(shape),
        ranks=np.broadcast_to(members, shape),
        time_s=asked.times().reshape(shape),
        _asked=asked,
        _rests_on=machines,
    )


def _flat(values: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Spread values over the shape, but leave a single one alone: the engine is then quicker."""
    import numpy as np

    if values.size == 1:
        return values.reshape(1)
    return np.ascontiguousarray(np.broadcast_to(values, shape)).ravel()


def _spelt(line: Mapping[str, Any]) -> str:
    return f"{line['algorithm']} / {line['protocol']}"
