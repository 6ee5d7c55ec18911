"""The arguments of rclone, and the options that a policy may give it: the values that each takes, and its arguments."""

import re
from collections.abc import Callable
from typing import Any

from engines.base import BackupTask
from engines.rclone import exclude
from engines.rclone.remotes import remote_path, times_arguments
from storage import layout
from storage.points.store import PARTIAL_SUFFIX

SIGN, LITERAL = re.compile(r"[\\*?\[\]{}]"), r"\\\g<0>"
"""The special characters of rclone's patterns, and the replacement that makes them literal."""
IDLE_SECONDS = 300.0
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
            f'option {name!r} must be bytes per second as text with a unit, such as "512K" or "10M", or a '
            'timetable of them in the zone of the policy, such as "08:00,512K 19:00,10M 23:00,off" or '
            f'"mon-08:00,1M sat-00:00,off", not {value!r}'
        )
    return (f"--{name}={value}",)


def _patterns(name: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(p, str) and p and p.isprintable() for p in value):
        raise ValueError(
            f'option {name!r} must be a list of file patterns, such as ["*.tmp", "/cache/**"], not {value!r}'
        )
    exclude.matcher(value)
    return exclude.rclone_arguments(value)


def _yes_or_no(name: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, bool):
        raise ValueError(f"option {name!r} must be true or false, not {value!r}")
    return ()


OPTIONS: dict[str, Callable[[str, Any], tuple[str, ...]]] = {
    "transfers": _parallel,
    "checkers": _parallel,
    "bwlimit": _rate,
    "exclude": _patterns,
    "ignore_ctime": _yes_or_no,
    "checksum": _yes_or_no,
}
OF_LISTINGS = ("exclude", "ignore_ctime", "checksum")
"""Options that do not concern a copy: it gets a list."""
OF_READING = ("bwlimit", "checkers", "transfers")
"""Options that concern all that is read."""


def check_options(options: dict[str, Any]) -> None:
    """Check the options of a policy. Raises: ValueError naming an option that rclone does not have, or a bad value."""
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


def reading_arguments(options: dict[str, Any]) -> tuple[str, ...]:
    """The arguments for an rclone that reads files without a list. Raises: ValueError on a bad value."""
    return option_arguments({name: value for name, value in options.items() if name in OF_READING})


def option_environment(options: dict[str, Any], zone: str) -> dict[str, str]:
    """The environment with the time zone of a timetable. `zone`: such as `Europe/Berlin`.

    rclone looks only where systems keep their zones, and takes UTC for a name that it does not find there.
    """
    if "," not in str(options.get("bwlimit")):
        return {}
    from importlib.resources import files  # costs 10 ms

    return {"TZ": f"{files('tzdata')}/zoneinfo/{zone}"}


def pattern_options(options: dict[str, Any]) -> list[str]:
    """rclone's options for the patterns that a policy leaves out."""
    return list(options.get("exclude", ()))


def copy_arguments(task: BackupTask, target: str, *how: str) -> tuple[str, ...]:
    """The arguments that copy the files of a list into a folder that has none of them. Raises: ValueError on a bad
    option.
    """
    options = {name: value for name, value in task.options.items() if name not in OF_LISTINGS}
    return (
        "copy",
        remote_path(task.source),
        target,
        "--no-check-dest",
        "--no-update-dir-modtime",
        f"--partial-suffix={PARTIAL_SUFFIX}",
        "--skip-specials",
        *option_arguments(options),
        *how,
    )


def links_arguments(task: BackupTask, folder: str) -> tuple[str, ...]:
    """The arguments that copy the targets of the links in a folder on this host into `files`. Raises: ValueError on a
    bad option.
    """
    verb, _, *how = copy_arguments(task, task.location.at(layout.files_path(task.folder)))
    return (verb, folder, *how, "--copy-links")


def mirror_arguments(task: BackupTask, target: str, *without: str, deletes: bool = True) -> tuple[str, ...]:
    """The arguments that make a folder on this host the same as the source; `without`: paths that it keeps as they are.
    It keeps everything that the policy leaves out, too, and files that the source does not list unless it `deletes`.
    Raises: ValueError on a bad option.
    """
    options = {name: value for name, value in task.options.items() if name not in OF_LISTINGS}
    return (
        "sync" if deletes else "copy",
        remote_path(task.source),
        target,
        f"--partial-suffix={PARTIAL_SUFFIX}",
        "--create-empty-src-dirs",
        *(f"--exclude=/{SIGN.sub(LITERAL, each)}" for each in without),
        "--skip-specials",
        # everything is read: rclone compares sizes if the source offers no digest of a file
        *(("--ignore-times",) if task.options.get("checksum") else ()),
        *exclude.rclone_arguments(pattern_options(task.options)),
        *option_arguments(options),
    )


def common_arguments(task: BackupTask) -> tuple[str, ...]:
    """The arguments of every rclone that talks to a source: no configuration file, no retries by rclone itself."""
    return (
        "--use-json-log",
        "--stats=500ms",
        "--stats-log-level=NOTICE",
        "--retries=1",
        # rclone sorts longer listings in /var/tmp, whose space has no bound; its memory has one
        "--list-cutoff=1000000000000",
        "--low-level-retries=3",
        f"--contimeout={task.connect_timeout:g}s",
        f"--timeout={min(IDLE_SECONDS, task.stall_timeout):g}s",
        *times_arguments(task.source),
    )
