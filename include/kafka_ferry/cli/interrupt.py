"""What Ctrl-C in a terminal does: the command says one sentence and ends, with exit status 130."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, NoReturn

from kafka_ferry.cli.terminal import messages

EXIT_STATUS: Final = 130
"""128 and the number of SIGINT, as shells have it."""

_CLEAN_UP_S: Final = 5.0
_SENTENCE: Final = (
    "Interrupted. What was committed stays, and nothing is lost: run it again to continue."
)


class _Interruption:
    """Ends the process after the first SIGINT, whatever becomes of its exception.

    ``KeyboardInterrupt`` is raised wherever the process is, so that temporary files are deleted. Not all code passes
    it on: a client's callback turns it into another error, and a run goes on after a step that failed. So the
    process ends after some seconds in any case, and at once after the second signal. That is as safe as being
    killed: what a run has not committed, the next run copies.
    """

    def __init__(self) -> None:
        self.is_there = False

    def begin(self, *_: object) -> None:
        """Say the sentence, and raise.

        Raises:
            KeyboardInterrupt: always, for the first signal.
        """
        if self.is_there:
            self.end()
        self.is_there = True
        with suppress(OSError, ValueError, RuntimeError):
            sys.stdout.flush()
        # A progress bar leaves its line unfinished, and the cursor hidden.
        messages.show_cursor(True)
        messages.print(f"\n{_SENTENCE}", style="yellow")
        _silence()
        timer = threading.Timer(_CLEAN_UP_S, self.end)
        timer.daemon = True
        timer.start()
        raise KeyboardInterrupt

    def end(self) -> NoReturn:
        """End without waiting for threads that talk to a broker or to Spark, whose processes end with this one."""
        os._exit(EXIT_STATUS)


@contextmanager
def interruptible() -> Iterator[None]:
    """Let SIGINT end this process as above while the body runs, unless the process ignores SIGINT."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    interruption = _Interruption()
    signal.signal(signal.SIGINT, interruption.begin)
    try:
        yield
    finally:
        if interruption.is_there:
            interruption.end()
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _silence() -> None:
    """Write no more: libraries log the exception that ends them, and a run that goes on would show its report."""
    with suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):
            os.dup2(nowhere, stream)
        os.close(nowhere)
