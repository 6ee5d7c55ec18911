"""What a source, policy and repository must look like. Each check raises ValidationError naming the field.

The models call these from `clean`, so the admin, the fleet import and any `full_clean` get them.
"""

import ipaddress
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from django.core.exceptions import ValidationError

from schedules.cron import Period
from sources.availability import contact, wake_networks
from sources.availability.host_keys import check_host_key
from sources.backups import repositories
from sources.domain.excluded_dates import ExcludedDates
from sources.domain.preview import check_period_meets_window
from sources.domain.windows import Window
from sources.engines import cleartext
from sources.kinds import RULES, Rule
from sources.secrets_by_reference import check_reference

if TYPE_CHECKING:
    from sources.models import Source

HOST_LABEL = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?")
MAC_ADDRESS = re.compile(r"[0-9A-Fa-f]{2}([:-][0-9A-Fa-f]{2}){5}")
CONTROL_CHARACTER = re.compile(r"[\x00-\x1f\x7f]")


def check_source(source: "Source") -> None:
    """Check every field that the kind of `source` needs. Raises: ValidationError with all wrong fields."""
    rule = RULES.get(source.kind)
    if rule is None:
        known = ", ".join(sorted(RULES))
        raise ValidationError({"kind": f"unknown kind {source.kind!r}; one of {known}"})
    _check_fields(
        ("address", lambda: _check_address_of(rule, source)),
        ("port", lambda: _check_port_of(rule, source.port)),
        ("path", lambda: _check_path(rule, source.path)),
        ("options", lambda: _check_options(rule, source.options)),
        ("secret", lambda: _check_secret_of(rule, source.secret)),
        ("host_key", lambda: _check_host_key_of(rule, source.host_key)),
        ("mac_address", lambda: _check_mac_address(source.mac_address, source.wake_allowed)),
        ("wake_address", lambda: _check_wake_address(source.wake_address, source.mac_address)),
        ("wake_port", lambda: _check_port(source.wake_port)),
    )


def check_window(rows: Any, excluded: Any = ()) -> None:
    """Check the ranges of a weekly window and its excluded dates.

    Raises: ValidationError on `window`, naming the range, on `excluded_dates`, naming the entry, or on both.
    """
    _check_fields(
        ("window", lambda: Window.parse(rows, "UTC")),
        ("excluded_dates", lambda: ExcludedDates.parse(excluded)),
    )


def check_period_and_window(period: Period, window: Window, now: datetime) -> list[str]:
    """Check that the window opens at all. Returns warnings about coming periods without an opening.

    Raises: ValidationError on `excluded_dates` if these are what leaves no opening, else on `window`.
    """
    try:
        return check_period_meets_window(period, window, now)
    except ValueError as error:
        if not window.excluded:
            raise ValidationError({"window": str(error)}) from error
    try:
        replace(window, excluded=ExcludedDates()).current_or_next(now)
    except ValueError as error:
        raise ValidationError({"window": str(error)}) from error
    raise ValidationError({"excluded_dates": "leave no opening within two years; take some of them away"})


def check_engine_options(options: Any) -> None:
    """Check that every option is known, with this value, to at least one engine: a policy may span kinds.

    Raises: ValidationError on `engine_options`, naming the option.
    """
    from sources.engines import engine_for

    if not isinstance(options, dict):
        raise ValidationError({"engine_options": 'must be an object, as {"transfers": 4}'})
    for name, value in options.items():
        refusals = set()
        for kind in RULES:
            try:
                engine_for(kind).check_options({name: value})
            except ValueError as error:
                refusals.add(str(error))
            else:
                break
        else:
            by_value = sorted(text for text in refusals if not text.startswith("unknown"))
            raise ValidationError({"engine_options": "; ".join(by_value or sorted(refusals))})


def check_repository_location(location: str) -> None:
    """Check that backups can be written to the directory, or that it can be made. Writes nothing that stays.

    Raises: ValidationError on `location`.
    """
    if CONTROL_CHARACTER.search(location) or not Path(location).is_absolute():
        raise ValidationError({"location": f"{location!r} is not an absolute path, as /srv/backups"})
    if reason := repositories.why("not_usable", location):
        raise ValidationError({"location": reason})


def _check_fields(*checks: tuple[str, Callable[[], object]]) -> None:
    """Do all checks, each of a field. Raises: ValidationError with every ValueError, on its field."""
    errors: dict[str, str] = {}
    for field, check in checks:
        try:
            check()
        except ValueError as error:
            errors[field] = str(error)
    if errors:
        raise ValidationError(dict(errors))


def _check_address_of(rule: Rule, source: "Source") -> None:
    _check_address(rule, source.address)
    if rule.address_is_url and (said := cleartext.refusal(source.address, source.secret, source.options or {})):
        raise ValueError(said)


def _check_address(rule: Rule, address: str) -> None:
    if rule.address is None:
        if address:
            raise ValueError(f"{rule.title} has no address; leave it empty")
        return
    if not address:
        raise ValueError(f"is missing: {rule.title} needs {rule.address}")
    if rule.address_is_url:
        _check_url(address)
    elif CONTROL_CHARACTER.search(address):
        raise ValueError(f"{address!r} holds a control character")
    elif not (rule.address_may_be_directory and address.startswith("/")):
        _check_host(address)


def _check_url(address: str) -> None:
    try:
        parts = urlsplit(address)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise ValueError(f"{address!r} is not a URL: {error}") from None
    if parts.scheme not in ("http", "https") or not host:
        raise ValueError(f"{address!r} is not a URL, as https://files.example.org")
    if parts.username or parts.password:
        raise ValueError("a URL must not hold a user or password; use options and secret")
    if re.search(r"\s", address) or CONTROL_CHARACTER.search(address):
        raise ValueError(f"{address!r} holds a space or control character")
    _check_host(host)


def _check_host(host: str) -> None:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        if host.startswith("-"):
            raise ValueError(f"{host!r} begins with '-', which a program would read as an option") from None
        labels = host.removesuffix(".").split(".")
        if len(host) > 253 or not all(HOST_LABEL.fullmatch(label) for label in labels):
            raise ValueError(f"{host!r} is neither a host name nor an IP address") from None


def _check_port_of(rule: Rule, port: int | None) -> None:
    if port is None:
        return
    if not rule.has_port:
        where = "write it into the URL" if rule.address_is_url else "leave it empty"
        raise ValueError(f"{rule.title} has no port of its own; {where}")
    _check_port(port)


def _check_port(port: Any) -> None:
    if isinstance(port, bool) or not isinstance(port, int) or not 1 <= port <= 65535:
        raise ValueError(f"{port!r} is not a port; use 1 to 65535")


def _check_path(rule: Rule, path: str) -> None:
    if rule.path_needed and not path:
        raise ValueError(f"is missing: {rule.title} needs {rule.path}")
    if CONTROL_CHARACTER.search(path):
        raise ValueError(f"{path!r} holds a control character")
    if rule.path_is_absolute and not path.startswith("/"):
        raise ValueError(f"{path!r} is not an absolute path, as /home")
    if rule.path_is_a_name and (path.startswith("-") or "=" in path or "/" in path):
        raise ValueError(f"{path!r} is not {rule.path}")
    if ".." in path.split("/"):
        raise ValueError(f"{path!r} must not hold '..'")


def _check_options(rule: Rule, options: Any) -> None:
    if not isinstance(options, dict):
        raise ValueError('must be an object, as {"user": "backup"}')
    known = (*rule.options_needed, *rule.options_allowed)
    for name, value in options.items():
        if name not in known:
            raise ValueError(f"{rule.title} has no option {name!r}; it takes {', '.join(known)}")
        if not isinstance(value, str) or not value or value[0] == "-" or CONTROL_CHARACTER.search(value):
            raise ValueError(f"{name} must be text that does not begin with '-', not {value!r}")
    if missing := [name for name in rule.options_needed if name not in options]:
        raise ValueError(f"{missing[0]} is missing: {rule.title} needs it")
    cleartext.check_options(options)
    if ".." in options.get("marker", "").split("/") or options.get("marker", "").startswith("/"):
        raise ValueError(f"marker {options['marker']!r} must be a path below the source's path")


def _check_secret_of(rule: Rule, reference: str) -> None:
    if rule.secret_needed and not reference:
        raise ValueError(f"is missing: {rule.title} needs one, as env:NAME or file:/path")
    if reference:
        check_reference(reference)


def _check_host_key_of(rule: Rule, host_key: str) -> None:
    if not rule.has_host_key:
        if host_key:
            raise ValueError(f"{rule.title} has no SSH host key; leave it empty")
        return
    check_host_key(host_key)


def _check_mac_address(mac_address: str, wake_allowed: bool | None) -> None:
    if mac_address and not MAC_ADDRESS.fullmatch(mac_address):
        raise ValueError(f"{mac_address!r} is not a MAC address, as 02:00:00:aa:bb:cc")
    if wake_allowed and not mac_address:
        raise ValueError("is missing: a source that may be woken needs one, as 02:00:00:aa:bb:cc")


def _check_wake_address(wake_address: str, mac_address: str) -> None:
    if wake_address:
        _check_host(wake_address)
        if contact.is_address(wake_address):  # a name is looked up, and checked, when a packet is sent
            wake_networks.check(wake_address)
    elif mac_address:
        raise ValueError("is missing: a magic packet goes to a broadcast address, as 255.255.255.255")
