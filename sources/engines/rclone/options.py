"""The options that a policy may give to rclone, with what each must look like and the arguments it becomes."""

import re
from collections.abc import Callable
from typing import Any

MAX_PARALLEL = 64
RATE = re.compile(r"\d+(\.\d+)?[BKMG]")


def _parallel(name: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_PARALLEL:
        raise ValueError(f"option {name!r} must be a whole number from 1 to {MAX_PARALLEL}, not {value!r}")
    return (f"--{name}={value}",)


def _rate(name: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, str) or not RATE.fullmatch(value):
        raise ValueError(
            f'option {name!r} must be bytes per second as text with a unit, as "512K" or "10M", not {value!r}'
        )
    return (f"--{name}={value}",)


def _patterns(name: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(p, str) and p and p.isprintable() for p in value):
        raise ValueError(f'option {name!r} must be a list of file patterns, as ["*.tmp", "/cache/**"], not {value!r}')
    return tuple(f"--{name}={pattern}" for pattern in value)


OPTIONS: dict[str, Callable[[str, Any], tuple[str, ...]]] = {
    "transfers": _parallel,
    "checkers": _parallel,
    "bwlimit": _rate,
    "exclude": _patterns,
}


def check_options(options: dict[str, Any]) -> None:
    """Raises: ValueError naming an option that rclone is not given, or a bad value."""
    for name, value in options.items():
        if name not in OPTIONS:
            raise ValueError(f"unknown option {name!r}; rclone takes {', '.join(OPTIONS)}")
        OPTIONS[name](name, value)


def option_arguments(options: dict[str, Any]) -> tuple[str, ...]:
    """The arguments for rclone. Options of other engines are passed over: a policy may span kinds.

    Raises: ValueError on a bad value.
    """
    return tuple(
        argument for name, value in options.items() if name in OPTIONS for argument in OPTIONS[name](name, value)
    )
