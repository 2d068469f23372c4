"""How long does a collective take when its messages run on the links, one by one?"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from scalewright import _engine
from scalewright.config import json_text, need, need_count, need_number
from scalewright.errors import InvalidError
from scalewright.planning.inputs import System
from scalewright.planning.stamp import Answer


@dataclass(frozen=True)
class SimulatedCollective(Answer):
    """A run of an algorithm on all groups of a system at once, by max-min fair flows.

    Attributes:
        time_s: When the last transfer has arrived.
        closed_form_s: What the closed form says, without a library's start-up and protocols.
        transfers: Transfers that were simulated.
        busiest_link_share: Most bytes on one link over what it could have carried in the time.
    """

    time_s: float
    closed_form_s: float
    transfers: int
    busiest_link_share: float


@dataclass(frozen=True)
class SimulatedMsccl(Answer):
    """A run of an algorithm that is written as MSCCL XML, rank `i` on device `i`.

    Attributes:
        algorithm: Name of the program.
        collective: What it computes.
        ranks: Ranks that run it.
        messages: Messages that were sent.
        sent_bytes: Bytes of all of them.
        time_s: End of the last one, seconds.
        algorithm_bandwidth_bytes_per_s: Bytes of the buffer over that time.
        busiest_link_share: Most bytes on one link over what it could have carried in the time.
    """

    algorithm: str
    collective: str
    ranks: int
    messages: int
    sent_bytes: float
    time_s: float
    algorithm_bandwidth_bytes_per_s: float
    busiest_link_share: float


def simulate_collective(
    name: str,
    buffer_bytes: float,
    system: System,
    ranks: int | None = None,
    *,
    algorithm: str,
    stride: int = 1,
) -> SimulatedCollective:
    """Run an algorithm on the links of a system: the witness of its closed form.

    Args:
        name: As in `collective`.
        buffer_bytes: Full buffer as in nccl-tests.
        system: The machines; groups like this one fill them and run at the same time.
        ranks: Members of a group; all devices where left out.
        algorithm: Its name, as `ring`.
        stride: Distance between neighbours of a group.

    Raises:
        ScalewrightError: Wrong name or size, an algorithm that cannot run here, or a run of more
            than 2^25 transfers.
    """
    need("collective", name, str, "a name, as all_reduce")
    need("algorithm", algorithm, str, "a name, as ring")
    need("system", system, System, "what scalewright.system(...) returns")
    members = need_count("ranks", system.devices if ranks is None else ranks)
    stride = need_count("stride", stride)
    size = need_number("buffer_bytes", buffer_bytes, "a number of bytes")
    asked = {
        "collective": name,
        "algorithms": [algorithm],
        "stride": stride,
    }
    request = json_text("", asked)
    answer = _engine.simulate_collective(system.cluster, request, members, size)
    return SimulatedCollective(**json.loads(answer), _rests_on=system)


def simulate_msccl(algorithm: str | Path, buffer_bytes: float, system: System) -> SimulatedMsccl:
    """Run an algorithm of the MSCCL runtime on the links of a system.

    Args:
        algorithm: The path of an XML file, or its text.
        buffer_bytes: Full buffer as in nccl-tests.
        system: The machines.

    Raises:
        ScalewrightError: The file cannot be read; the XML is wrong, with the line; or there are
            fewer devices than ranks.
    """
    need("algorithm", algorithm, (str, Path), "the path of an XML file, or its text")
    need("system", system, System, "what scalewright.system(...) returns")
    size = need_number("buffer_bytes", buffer_bytes, "a number of bytes")
    is_text = isinstance(algorithm, str) and algorithm.lstrip().startswith("<")
    text = str(algorithm) if is_text else _read(Path(algorithm))
    answer = _engine.simulate_msccl(
        system.cluster, text.encode("utf-8", "backslashreplace").decode(), size
    )
    return SimulatedMsccl(**json.loads(answer), _rests_on=system)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        message = f"{path}: cannot be read as text: {error}"
        raise InvalidError(message) from error
