"""This host's file of hooks: TOML, one table per hook, each command a list of words.

    [orders]
    before = ["/usr/local/sbin/dump-orders"]
    after = ["/usr/local/sbin/remove-dump"]
    on_failure = ["/usr/bin/logger", "the backup of orders failed"]
    timeout = "10m"
    environment = ["ORDERS_PASSWORD_FILE"]
    exit_codes = {3 = "unavailable"}

It is read at each use. A worker runs these commands with its own rights, so a file that anyone but root and the
worker's account could have written is refused, and so is one that is reached by a link.
"""

import os
import re
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.conf import settings

from external import durations

COMMANDS = ("before", "after", "on_failure")
KEYS = (*COMMANDS, "timeout", "environment", "exit_codes")
UNAVAILABLE = 75
"""EX_TEMPFAIL of sysexits.h."""
MEANINGS = {"succeeded": 0, "unavailable": UNAVAILABLE, "failed": 1}
"""The exit code that usually means it."""
NAME = re.compile(r"[A-Za-z0-9_-]{1,100}")
CODE = re.compile(r"[1-9][0-9]?|1[0-9][0-9]|2[0-4][0-9]|25[0-5]")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
USUAL_TIMEOUT = 900
LONGEST_TIMEOUT = 86_400
LARGEST_FILE = 1_000_000
WORDS = 'a list of words, the first of which is the absolute path of a program, such as ["/usr/bin/true"]'


class HookUnusable(Exception):
    """A hook cannot be run on this host. The message names the reason, the place, and what to do."""


@dataclass(frozen=True)
class Hook:
    """Commands by their names in COMMANDS; each may run for `timeout` seconds. `environment`: variables of the worker
    that they see. `exit_codes`: their own → the usual one of the same meaning."""

    name: str
    commands: dict[str, tuple[str, ...]]
    timeout: float = USUAL_TIMEOUT
    environment: tuple[str, ...] = ()
    exit_codes: Mapping[int, int] = field(default_factory=dict)


def hook_name(name: str) -> str:
    """`name`, which may be empty. Raises: ValueError when it can be no hook's."""
    if name and not NAME.fullmatch(name):
        raise ValueError("is a name of letters, digits, - and _: a table of the hosts' file of hooks, never a command")
    return name


def hook_of(name: str) -> Hook:
    """The hook of that name on this host. Raises: HookUnusable."""
    tables = _read(settings.HOOKS_FILE)
    if name not in tables:
        known = f"it has {', '.join(sorted(tables))}" if tables else "it has none"
        raise HookUnusable(f"{settings.HOOKS_FILE} on this host has no hook {name}, {known}: add [{name}] to it")
    try:
        return _hook(name, tables[name])
    except ValueError as error:
        raise HookUnusable(f"hook {name} in {settings.HOOKS_FILE}: {error}") from None


def known() -> list[str]:
    """The names of this host's hooks. Raises: HookUnusable when the file is there and cannot be used."""
    return sorted(_read(settings.HOOKS_FILE)) if os.path.lexists(settings.HOOKS_FILE) else []


def _read(path: Path) -> dict[str, Any]:
    """The tables of the file, by name. Raises: HookUnusable."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            _check_owners(path, os.fstat(file.fileno()))
            tables = tomllib.loads(file.read(LARGEST_FILE).decode())
    except FileNotFoundError:
        raise HookUnusable(
            f"{path} does not exist on this host: a worker's hooks are listed there (docs/hooks.md)"
        ) from None
    except OSError as error:
        why = "it is a link" if path.is_symlink() else error.strerror
        raise HookUnusable(f"{path} cannot be read on this host: {why}") from None
    except ValueError as error:
        raise HookUnusable(f"{path} is refused: {error}") from None
    return {name: table for name, table in tables.items() if NAME.fullmatch(name)}


def _check_owners(path: Path, file: os.stat_result) -> None:
    """Raises: ValueError unless only root and this account can write the file, or put another in its place."""
    if not stat.S_ISREG(file.st_mode):
        raise ValueError("it is not a file")
    if os.path.realpath(path) != str(path):
        raise ValueError(f"it is reached by a link; name it {os.path.realpath(path)}")
    for each, found in ((path, file), *((parent, parent.lstat()) for parent in path.parents)):
        if found.st_uid not in (0, os.geteuid()):
            raise ValueError(f"{each} belongs to an account other than root: chown root {each}")
        # in a sticky directory, such as /tmp, no account replaces the files of another
        if found.st_mode & 0o022 and not (found.st_mode & stat.S_ISVTX and stat.S_ISDIR(found.st_mode)):
            raise ValueError(f"other accounts can write {each}: chmod go-w {each}")


def _hook(name: str, table: Any) -> Hook:
    """The hook of a table. Raises: ValueError naming the key and its problem."""
    if not isinstance(table, dict) or not any(key in table for key in COMMANDS):
        raise ValueError(f"it must be a table with at least one of {', '.join(COMMANDS)}")
    if unknown := sorted(set(table) - set(KEYS)):
        raise ValueError(f"{unknown[0]} is unknown; it may have {', '.join(KEYS)}")
    names = table.get("environment", [])
    if not isinstance(names, list) or not all(isinstance(each, str) and VARIABLE.fullmatch(each) for each in names):
        raise ValueError('environment must be a list of names of variables, such as ["PGPASSFILE"]')
    try:
        timeout = durations.parse(str(table.get("timeout", USUAL_TIMEOUT)), 1, LONGEST_TIMEOUT)
    except ValueError as error:
        raise ValueError(f"timeout: {error}") from None
    codes, commands = table.get("exit_codes", {}), {key: _argv(key, table[key]) for key in COMMANDS if key in table}
    if not isinstance(codes, dict) or not all(CODE.fullmatch(key) and codes[key] in MEANINGS for key in codes):
        raise ValueError(f'exit_codes maps codes from 1 to 255 to {", ".join(MEANINGS)}, such as {{3 = "unavailable"}}')
    return Hook(name, commands, timeout, tuple(names), {int(key): MEANINGS[codes[key]] for key in codes})


def _argv(key: str, words: Any) -> tuple[str, ...]:
    if (
        not isinstance(words, list)
        or not words
        or not all(isinstance(each, str) and "\0" not in each for each in words)
    ):
        raise ValueError(f"{key} is {WORDS}")
    if not os.path.isabs(words[0]):
        raise ValueError(f"{key} is {WORDS}, not {words[0]!r:.50}")
    return tuple(words)
