"""Numbers, paths and networks from the environment: errors are reported in a sentence, before anything starts."""

import math
import os
import re
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path

from external import durations


def number(name: str, default: float) -> float:
    """The variable `name` as a number. Raises: SystemExit naming variable and value."""
    written = os.environ.get(name, "")
    if not written.strip():
        return float(default)
    try:
        found = float(written)
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise SystemExit(
            f"{name} must be a number, such as {default:g}, not {written!r:.50}: correct it, or leave it out"
        )
    return found


def seconds(name: str, default: float) -> float:
    """The variable `name` as a duration in seconds, which may be written as `15m`. Raises: SystemExit likewise."""
    try:
        return durations.parse(os.environ.get(name, "").strip())
    except ValueError:
        return number(name, default)


def whole(name: str, default: int) -> int:
    """The same, for a whole number."""
    found = number(name, default)
    if found != int(found):
        raise SystemExit(
            f"{name} must be a whole number, such as {default}, not {found:g}: correct it, or leave it out"
        )
    return int(found)


def one_of(name: str, usual: str, *others: str) -> str:
    """The variable `name`, one of a few words. Raises: SystemExit naming variable, value and words."""
    written = os.environ.get(name, "").strip() or usual
    if written not in (usual, *others):
        raise SystemExit(f"{name} must be {' or '.join((usual, *others))}, not {written!r:.50}: correct it")
    return written


def umask(name: str, default: int) -> int:
    """The variable `name` as an octal umask that takes nothing from the owner. Raises: SystemExit naming both."""
    written = os.environ.get(name, "").strip()
    if not written:
        return default
    if not re.fullmatch(r"0{0,2}[0-7]{2}", written):
        raise SystemExit(f"{name} must be an octal mask, such as {default:03o} or 022, not {written!r:.50}: correct it")
    return int(written, 8)


def paths(name: str, *default: str | Path | None) -> list[Path]:
    """The variable `name` as a colon-separated list of absolute paths. Raises: SystemExit naming variable and value."""
    written = [each for each in os.environ.get(name, "").split(":") if each.strip()]
    for each in written:
        if not each.startswith("/"):
            raise SystemExit(
                f"{name} must be a list of absolute paths, such as /srv:/mnt, not {each!r:.50}: correct it"
            )
    return [Path(os.path.normpath(each)) for each in written or default if each]


def listed(name: str) -> list[str]:
    """The variable `name` as a comma-separated list."""
    return [each.strip() for each in os.environ.get(name, "").split(",") if each.strip()]


def some_of(name: str, *words: str) -> list[str]:
    """Words of a list with commas. Raises: SystemExit naming one that is not of `words`."""
    found = listed(name)
    for each in found:
        if each not in words:
            raise SystemExit(
                f"{name} must be a list of {', '.join(words)}, not {each!r:.50}: correct it, or leave it out"
            )
    return found


def web_address(name: str) -> str:
    """The variable `name` as a URL; empty if it is not set. Raises: SystemExit naming the variable alone, since a URL
    may hold a token.
    """
    written = os.environ.get(name, "").strip()
    if written and not re.fullmatch(r"https?://[^\s/?#]+([/?#]\S*)?", written):
        raise SystemExit(f"{name} must be a URL, such as https://hc.example.org/ping/…: correct it, or leave it out")
    return written


def networks(name: str) -> list[IPv4Network | IPv6Network]:
    """The variable `name` as a comma-separated list of networks. Raises: SystemExit naming variable and value."""
    try:
        return [ip_network(each) for each in listed(name)]
    except ValueError as error:
        raise SystemExit(f"{name} must be a list of networks, such as 10.1.0.0/16,10.2.0.0/16: {error}") from None
