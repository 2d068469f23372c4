"""How is a command line that cannot be read refused, in one line?"""

from __future__ import annotations

import argparse
import re
from typing import NoReturn

_WORDINGS = {
    r"argument (?P<name>\S+): invalid choice: (?P<got>.*) \(choose from (?P<known>.*)\)": (
        "{name}: got {got}; allowed: {known}"
    ),
    r"argument (?P<name>\S+): invalid int value: (?P<got>.*)": (
        "{name}: got {got}; allowed: a whole number"
    ),
    r"argument (?P<name>\S+): invalid float value: (?P<got>.*)": (
        "{name}: got {got}; allowed: a number"
    ),
    r"argument (?P<name>\S+): expected (one|at least one) argument": (
        "{name}: got nothing; allowed: a value, as {name}=VALUE where it begins with -"
    ),
    r"argument (?P<name>\S+): ignored explicit argument (?P<got>.*)": (
        "{name}: got {got}; allowed: no value"
    ),
    r"argument (?P<name>\S+): not allowed with argument (?P<other>\S+)": (
        "{name}: got it beside {other}; allowed: one of them"
    ),
    r"the following arguments are required: (?P<name>.*)": "{name}: got nothing; allowed: a value",
    r"ambiguous option: (?P<name>\S+) could match (?P<known>.*)": (
        "{name}: got what several begin with; allowed: {known}"
    ),
}
"""What argparse says, and how every wrong input is told."""
_VERB = re.compile(r"argument VERB: invalid choice: (?P<got>.*) \(choose from (?P<known>.*)\)")


class Parser(argparse.ArgumentParser):
    """A parser that refuses in one line, as every wrong input is refused."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and end with the exit code of wrong input."""
        line = f"scalewright: {_told(message)}"
        if "allowed: " not in line and "nearest: " not in line:
            line += f"; `{self.prog} --help` tells what there is"
        self.exit(2, line.encode("utf-8", "backslashreplace").decode("utf-8") + "\n")

    def refuse_unknown(self, words: list[str]) -> NoReturn:
        """Refuse what is no option of this parser, with the options that come near."""
        known = list(dict.fromkeys(re.findall(r"--[a-z][a-z-]*", self.format_help())))
        wrong = [word.partition("=")[0] for word in words if word.startswith("--")]
        near = _nearest(wrong[0], known) if wrong else ""
        self.error(f"unrecognized arguments: {' '.join(words)}{near}")


def _told(message: str) -> str:
    """Return what argparse says as what was got and what is allowed."""
    if found := _VERB.fullmatch(message):
        got, known = (text.replace("'", "") for text in found.group("got", "known"))
        near = _nearest(got, known.split(", ")) or f"; allowed: {known}"
        return f"VERB: unknown name '{got}'{near}"
    for pattern, wording in _WORDINGS.items():
        if found := re.fullmatch(pattern, message, re.DOTALL):
            groups = found.groupdict()
            if "known" in groups:
                groups["known"] = groups["known"].replace("'", "")
            return wording.format(**groups)
    return message


def _nearest(got: str, known: list[str]) -> str:
    """Return which names come near a word, or nothing."""
    from difflib import get_close_matches

    close = get_close_matches(got, known, 3)
    return f"; nearest: {', '.join(close)}" if close else ""
