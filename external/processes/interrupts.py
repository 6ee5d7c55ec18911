"""The Ctrl-C that Python would lose, and a SIGTERM that ends a process as Ctrl-C does."""

import signal
import sys
from threading import Timer, main_thread
from types import FrameType

SECONDS_UNTIL_AGAIN = 0.05


def interrupt_at_term() -> None:
    """Let the first SIGTERM raise a KeyboardInterrupt from now on, and ignore any other.

    `timeout` sends it twice, to its child and to the group of that: the second one would break off what the first one
    made the process end, such as its children.
    """
    signal.signal(signal.SIGTERM, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def deliver_lost_interrupts() -> None:
    """Raise lost KeyboardInterrupts again from now on: those that came where Python ignores every error.

    Such places are functions that run around a fork, such as logging's hooks, and those that run when an object is
    collected.
    """
    sys.unraisablehook = _deliver_again


def _deliver_again(unraisable: "sys.UnraisableHookArgs") -> None:
    """One that comes in here would be lost with the one that is looked at, and is delivered with it."""
    is_lost = False
    while True:
        try:
            if is_lost or issubclass(unraisable.exc_type, KeyboardInterrupt):
                _interrupt_again()
            else:
                sys.__unraisablehook__(unraisable)
            return
        except KeyboardInterrupt:
            is_lost = True


def _interrupt_again() -> None:
    if identifier := main_thread().ident:
        again = Timer(SECONDS_UNTIL_AGAIN, signal.pthread_kill, (identifier, signal.SIGINT))
        again.daemon = True
        again.start()
