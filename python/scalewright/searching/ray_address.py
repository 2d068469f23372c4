"""Which Ray cluster does an address mean, and does anything answer there?"""

from __future__ import annotations

import os
import socket
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

from scalewright.config import need
from scalewright.errors import InvalidError, ScalewrightError

if TYPE_CHECKING:
    from collections.abc import Generator

_CLIENT = "ray://"
_ALLOWED = "ray://host:port, host:port, auto or local"
_ANSWER_S = 5.0
_TRIES = 3
_SLOW_START = "Initialization failure from server"
_NO_METHOD = "/scalewright.Hello/Hello"
_STRANGER = "http2 header with status"
"""How gRPC says that what answered speaks HTTP alone, as the proxy of a network may."""


def ray_address(cluster: object, ray_address: object) -> str | None:
    """Return where the workers are; none where neither argument says so.

    Raises:
        InvalidError: Both say so, or one of them is no address.
    """
    if cluster is None and ray_address is None:
        return None
    if cluster is not None and ray_address is not None:
        message = f"cluster and ray_address: got both; allowed: one of them, as {_ALLOWED}"
        raise InvalidError(message)
    field = "cluster" if ray_address is None else "ray_address"
    address = cluster if ray_address is None else ray_address
    need(field, address, str, _ALLOWED)
    host, port = _host_and_port(str(address))
    if str(address) not in ("auto", "local") and (not host or not 0 < port < 1 << 16):
        message = f"{field}: got {address!r:.60}; allowed: {_ALLOWED}"
        raise InvalidError(message)
    return str(address)


@contextmanager
def connected(address: str) -> Generator[Any]:
    """Yield the module of Ray, connected to a cluster; a connection made here ends here.

    Raises:
        InvalidError: Ray is not installed.
        ScalewrightError: Nothing answers at the address, or this process is connected elsewhere.
    """
    ray = _ray()
    if ray.is_initialized():
        _need_same(ray, address)
        yield ray
        return
    meant = os.environ.get("RAY_ADDRESS", address) if address == "auto" else address
    if meant not in ("auto", "local"):
        _need_answer(meant)
    _connect(ray, address, meant)
    try:
        yield ray
    finally:
        ray.shutdown()


def _connect(ray: Any, address: str, meant: str) -> None:  # noqa: ANN401 - as below
    """Connect, again where the head did not get the server of a client started."""
    for left in reversed(range(_TRIES)):
        try:
            ray.init(address=address, log_to_driver=False, logging_level="ERROR")
        except (ConnectionError, OSError, RuntimeError, ValueError) as error:
            if not left or _SLOW_START not in str(error):
                raise _silent(meant, str(error)) from error
            ray.shutdown()
        else:
            return


def _ray() -> Any:  # noqa: ANN401 - a package that is there only with its extra
    try:
        return import_module("ray")
    except ImportError as error:
        message = (
            "cluster: Ray is not installed; "
            "allowed: with the extra `ray`, as pip install 'scalewright[ray]'"
        )
        raise InvalidError(message) from error


def _need_same(ray: Any, address: str) -> None:  # noqa: ANN401 - as above
    """Refuse an address other than that of the connection that the process has."""
    there = str(ray.get_runtime_context().gcs_address)
    if address not in ("auto", there):
        message = (
            f"cluster: got {address!r:.60}, but this process is connected to {there}; "
            "allowed: auto, which uses that connection, or ray.shutdown() before"
        )
        raise ScalewrightError(message)


def _need_answer(address: str) -> None:
    """Refuse an address at which nothing speaks as Ray does; Ray itself may wait for minutes."""
    host, port = _host_and_port(address)
    try:
        socket.create_connection((host, port), _ANSWER_S).close()
    except OSError as error:
        raise _silent(address, error.strerror or str(error)) from error
    if os.environ.get("RAY_USE_TLS", "0") == "0" and (
        reason := _no_grpc(address.removeprefix(_CLIENT))
    ):
        raise _silent(address, reason)


def _no_grpc(server: str) -> str | None:
    """Return why no server of gRPC, which Ray is, seems to be there; none where one is.

    It is asked for a method that none has: a server says at once that it does not know it.
    """
    try:
        grpc: Any = import_module("grpc")
    except ImportError:
        return None
    with grpc.insecure_channel(server, options=[("grpc.enable_http_proxy", 0)]) as channel:
        try:
            channel.unary_unary(_NO_METHOD)(b"", timeout=_ANSWER_S)
        except grpc.RpcError as error:
            codes, details = grpc.StatusCode, str(error.details())
            if error.code() in (codes.UNIMPLEMENTED, codes.UNAUTHENTICATED) and (
                _STRANGER not in details
            ):
                return None
            return f"no server of Ray: {details:.200}"
    return None


def _silent(address: str, reason: str) -> ScalewrightError:
    message = (
        f"cluster: no Ray cluster answers at {address!r:.100} ({reason}); "
        "allowed: ray://host:port of its client server, host:port of its head, auto, or local"
    )
    return ScalewrightError(message)


def _host_and_port(address: str) -> tuple[str, int]:
    """Split an address; the port is 0 where there is none."""
    host, _, port = address.removeprefix(_CLIENT).rpartition(":")
    number = int(port) if port.isascii() and port.isdecimal() and len(port) < 6 else 0
    return host.removeprefix("[").removesuffix("]"), number
