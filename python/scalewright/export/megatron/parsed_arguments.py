"""Which Megatron-LM arguments does a file give, and with which values?"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from scalewright.errors import InvalidError
from scalewright.export.shell import Script

_OPTION = re.compile(r"--[A-Za-z][\w-]*")
_PAIR = re.compile(r"\s*(?:--)?([A-Za-z][\w-]*)\s*(?::|\s=)\s*(.*?)\s*$")
_LISTED = re.compile(r"^\s*(?:--)?num[-_]layers\s*(?::|\s=)", re.MULTILINE)
_PASSED_ON = {"$@", "$*", "${@}", "${*}"}
_NEEDED = "num-layers"
_NOTHING = {"null", "none", "~"}
_MOST_BYTES = 2**20


@dataclass
class ParsedArguments:
    """Arguments of a file."""

    where: str
    """Path, for messages."""
    values: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """Words after each argument, the last one of a name counting; none for a switch."""
    devices: int | None = None
    """Devices, where the launcher or `WORLD_SIZE` says them."""


def given_arguments(path: str | Path) -> ParsedArguments:
    """Read a shell script, or a file of `key: value` lines.

    Raises:
        InvalidError: The file cannot be read, or holds no arguments.
    """
    where = str(path)
    text = _text(Path(path), where)
    given = ParsedArguments(where)
    if Path(path).suffix.lower() in (".yaml", ".yml") or _LISTED.search(text):
        _read_pairs(text, given)
    else:
        _read_script(text, given)
    if not given.values:
        message = f"{where}: holds no --arguments and no 'key: value' lines"
        raise InvalidError(message)
    return given


def _text(path: Path, where: str) -> str:
    try:
        content = path.read_bytes()
        if len(content) > _MOST_BYTES:
            message = f"{where}: holds {len(content)} bytes; allowed: {_MOST_BYTES} at most"
            raise InvalidError(message)
        return content.decode("utf-8-sig")
    except OSError as error:
        message = f"{where}: cannot be read ({error.strerror})"
        raise InvalidError(message) from error
    except ValueError as error:
        if isinstance(error, InvalidError):
            raise
        message = f"{where}: is no text file ({error})"
        raise InvalidError(message) from error


def _read_pairs(text: str, given: ParsedArguments) -> None:
    world: str | None = None
    for line in text.splitlines():
        found = _PAIR.match(re.sub(r"(^|\s)#.*$", "", line))
        if found is None:
            continue
        value = found[2].strip("\"'")
        name = found[1].lower().replace("_", "-")
        if name == "world-size":
            world = value
        elif not value or value.lower() in _NOTHING:
            continue  # a section, or a value left to its default
        elif value.lower() == "false":
            given.values.pop(name, None)
        else:
            given.values[name] = [] if value.lower() == "true" else value.split()
    _find_devices(given, int(world) if world and _is_count(world) else None)


def _read_script(text: str, given: ParsedArguments) -> None:
    script = Script(text)
    if script.too_long:
        message = f"{given.where}: its variables repeat one another without end"
        raise InvalidError(message)
    launch = [words for words in script.commands if _asks_for_layers(words)]
    program = [words for words in launch if not words[0].startswith("--")]
    if program:
        words = program[-1]
    else:
        # no command starts the training: arguments alone, or groups of them in variables
        lines = script.commands if launch else []
        words = [word for group in [*script.variables.values(), *lines] for word in group]
    given.values = _paired(words)
    _find_devices(given, script.number("WORLD_SIZE"))


def _asks_for_layers(words: list[str]) -> bool:
    names = (word.partition("=")[0].replace("_", "-") for word in words)
    return any(name == f"--{_NEEDED}" for name in names)


def _paired(words: list[str]) -> dict[str, list[str]]:
    """Return the words that follow each argument."""
    found: dict[str, list[str]] = {}
    values: list[str] = []
    for word in words:
        name, equals, value = word.partition("=")
        if _OPTION.fullmatch(name):
            values = [value.strip("\"'")] if equals else []
            found[name[2:].replace("_", "-")] = values
        elif word.endswith(".py"):
            values = []  # the program; what comes before are the launcher's arguments
        elif word not in _PASSED_ON:
            values.append(word)
    return found


def _find_devices(given: ParsedArguments, world: int | None) -> None:
    """Take nodes x processes off the launcher's arguments, or the world size."""
    counts = [given.values.pop(name, []) for name in ("nnodes", "nproc-per-node")]
    if all(words and _is_count(words[0]) for words in counts):
        given.devices = int(counts[0][0]) * int(counts[1][0])
    else:
        given.devices = world or None
    for name in ("node-rank", "master-addr", "master-port"):
        given.values.pop(name, None)


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 12 and int(text) > 0
