"""What becomes of Ctrl-C during work that gives nothing unless it is done to its end?"""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator
    from types import FrameType


@dataclass
class DeferredInterrupt:
    """Whether Ctrl-C came, and waits to be heeded."""

    pressed: bool = False


@contextmanager
def defer_first_interrupt() -> Generator[DeferredInterrupt]:
    """Let the work inside end although Ctrl-C comes; a second one is raised as ever.

    Only Python's own handler is replaced: what a program does on Ctrl-C of its own accord, it goes
    on doing. Threads beside the main one hear of none.
    """
    held = DeferredInterrupt()
    ours = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    if not ours:
        yield held
        return

    def note(number: int, frame: FrameType | None) -> None:
        if held.pressed:
            signal.default_int_handler(number, frame)
        held.pressed = True

    signal.signal(signal.SIGINT, note)
    try:
        yield held
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
