"""The options that a policy may give to rclone, with what each must look like and the arguments it becomes."""

import re
from collections.abc import Callable
from typing import Any

MAX_PARALLEL = 64
RATE = r"\d+(\.\d+)?[BKMGbkmg]"
CHANGE = rf"((mon|tue|wed|thu|fri|sat|sun)-)?([01]\d|2[0-3]):[0-5]\d,({RATE}|off)"
LIMIT = re.compile(rf"{RATE}|{CHANGE}( {CHANGE})*", re.IGNORECASE)


def _parallel(name: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_PARALLEL:
        raise ValueError(f"option {name!r} must be a whole number from 1 to {MAX_PARALLEL}, not {value!r}")
    return (f"--{name}={value}",)


def _rate(name: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, str) or not LIMIT.fullmatch(value):
        raise ValueError(
            f'option {name!r} must be bytes per second as text with a unit, as "512K" or "10M", or a timetable of them '
            f'in the zone of the policy, as "08:00,512K 19:00,10M 23:00,off" or "mon-08:00,1M sat-00:00,off", not '
            f"{value!r}"
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


def option_environment(options: dict[str, Any], zone: str) -> dict[str, str]:
    """Whose clock a timetable goes by. `zone`: as `Europe/Berlin`.

    rclone looks only where systems keep their zones, and takes UTC for a name that it does not find there.
    """
    if "," not in str(options.get("bwlimit")):
        return {}
    from importlib.resources import files  # costs 10 ms

    return {"TZ": f"{files('tzdata')}/zoneinfo/{zone}"}
