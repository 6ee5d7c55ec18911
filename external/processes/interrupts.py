"""The Ctrl-C that Python would lose."""

import signal
import sys
from threading import Timer, main_thread

SECONDS_UNTIL_AGAIN = 0.05


def deliver_lost_interrupts() -> None:
    """From now on, raise a KeyboardInterrupt again that came where Python ignores every error.

    Such places are what runs around a fork, as logging's own hooks do, and what runs when an object is collected.
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
