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
    if not issubclass(unraisable.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)
    elif identifier := main_thread().ident:
        again = Timer(SECONDS_UNTIL_AGAIN, signal.pthread_kill, (identifier, signal.SIGINT))
        again.daemon = True
        again.start()
