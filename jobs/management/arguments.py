"""Types of options of commands. argparse says what is wrong, beside the name of the option."""

from argparse import ArgumentTypeError
from collections.abc import Callable

from jobs import durations


def duration(least: float = 0, most: float = durations.LONGEST) -> Callable[[str], float]:
    """Reads `90s`, `15m`, `2h`, `7d` or a number of seconds, from `least` to `most` seconds."""

    def read(text: str) -> float:
        try:
            return durations.parse(text, least, most)
        except ValueError as error:
            raise ArgumentTypeError(str(error)) from None

    return read
