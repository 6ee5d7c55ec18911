"""Rules for the fields of a source, by its kind (`engines.kinds`), and for those of a repository. Each check raises
ValueError; those of a repository get the fields before their own.
"""

import ipaddress
import re
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from engines import cleartext, engine_for
from engines.kinds import MARKER, RULES, KindRule
from external.network import contact
from external.processes.programs import ProgramMissing
from sealing.lookup import FORMS, check_reference
from sources.availability import wake_networks
from sources.availability.host_keys import check_host_key as check_key
from storage.places import providers
from storage.places.location import RESTIC
from storage.places.providers import PLAINTEXT
from storage.places.remotes import REST_SERVER

HOST_LABEL = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?")
MAC_ADDRESS = re.compile(r"[0-9A-Fa-f]{2}([:-][0-9A-Fa-f]{2}){5}")
LONGEST_DATABASE_NAME = 63
"""Bytes: PostgreSQL cuts a longer name."""
ELSEWHERE = re.compile(r"(?P<kind>[A-Za-z][\w+.-]*):|[\w.-]+@[\w.-]+:(?P<path>)")
"""A URL, a remote of rclone, a drive, a host of scp."""
HIGHEST_PORT = 65_535
CONTROL_CHARACTER = re.compile(r"[\x00-\x1f\x7f]")


def check_engine_options(options: dict[str, Any]) -> None:
    """Check that every option is known, with this value, to at least one engine: a policy may span kinds."""
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
            raise ValueError("; ".join(by_value or sorted(refusals)))


def check_address(rule: KindRule, address: str) -> None:
    if rule.address is None:
        if address:
            raise ValueError(f"{rule.title} has no address; leave it empty")
        return
    if not address:
        raise ValueError(f"is missing: {rule.title} needs {rule.address}")
    if rule.address_is_url:
        check_url(address)
    elif CONTROL_CHARACTER.search(address):
        raise ValueError(f"{address!r} contains a control character")
    elif not (rule.address_may_be_directory and address.startswith("/")):
        _check_host(address)
    elif "," in address:
        raise ValueError(f"{address!r} contains a comma, at which PostgreSQL's programs begin another host")


def check_url(address: str) -> None:
    try:
        parts = urlsplit(address)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise ValueError(f"{address!r} is not a URL: {error}") from None
    if parts.scheme not in ("http", "https") or not host:
        raise ValueError(f"{address!r} is not a URL, such as https://files.example.org")
    if parts.username or parts.password:
        raise ValueError("a URL must not hold a user or password; use options and secret")
    if re.search(r"\s", address) or CONTROL_CHARACTER.search(address):
        raise ValueError(f"{address!r} contains a space or control character")
    _check_host(host)


@lru_cache(1_000)
def _check_host(host: str) -> None:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        if host.startswith("-"):
            raise ValueError(f"{host!r} begins with '-', which a program would read as an option") from None
        labels = host.removesuffix(".").split(".")
        if len(host) > 253 or not all(HOST_LABEL.fullmatch(label) for label in labels):
            raise ValueError(f"{host!r} is neither a host name nor an IP address") from None


def check_port(rule: KindRule, port: int | None) -> None:
    if port is not None and not rule.has_port:
        where = "write it into the URL" if rule.address_is_url else "leave it empty"
        raise ValueError(f"{rule.title} has no separate port; {where}")


def check_path(rule: KindRule, path: str) -> None:
    if rule.path_needed and not path:
        raise ValueError(f"is missing: {rule.title} needs {rule.path}")
    if CONTROL_CHARACTER.search(path):
        raise ValueError(f"{path!r} contains a control character")
    if rule.path_is_absolute and path.startswith(("~", "$")):
        raise ValueError(f"{path!r} is not an absolute path: only a shell reads ~ and variables: write the whole path")
    if rule.path_is_absolute and not path.startswith("/"):
        raise ValueError(f"{path!r} is not an absolute path, such as /home")
    if rule.path_is_a_name and (path.startswith("-") or "=" in path or "/" in path):
        raise ValueError(f"{path!r} is not {rule.path}")
    if ".." in path.split("/"):
        raise ValueError(f"{path!r} must not hold '..'")


def check_remote(remote: dict[str, Any]) -> None:
    """Check the settings of an rclone remote as rclone itself describes them. Missing ones may be secrets."""
    try:
        providers.check_remote(remote)
    except ProgramMissing as error:
        raise ValueError(str(error)) from None
    port = str(remote.get("port") or HIGHEST_PORT)
    if not (port.isdecimal() and 1 <= int(port) <= HIGHEST_PORT):
        raise ValueError(f"port is {port!r:.60}, and must be a whole number from 1 to {HIGHEST_PORT}")
    if remote["type"] == "sftp":
        check_key(str(remote.get("host_keys", "")).replace(",", "\n"))


def check_secrets(rule: KindRule, secrets: dict[str, str], options: dict[str, Any]) -> None:
    if not rule.is_any_remote:
        if secrets:
            raise ValueError(f"{rule.title} has none; its password is its secret")
        return
    check_secrets_of_remote(options, secrets)


def check_secrets_of_remote(remote: dict[str, Any], secrets: dict[str, str]) -> None:
    for name, reference in secrets.items():
        try:
            check_reference(reference)
        except ValueError as error:
            raise ValueError(f"{name} {error}") from None
    providers.check_complete(remote, secrets)
    if text := cleartext.refusal_of_remote(remote, secrets):
        raise ValueError(f"a remote of type {remote['type']} {text}")


def check_options(rule: KindRule, options: dict[str, Any]) -> None:
    if rule.is_any_remote:
        check_remote({name: value for name, value in options.items() if name != MARKER.name})
        check_marker(options)
        return
    known = {option.name: option.choices for option in rule.options}
    for name, value in options.items():
        if name not in known:
            raise ValueError(f"{rule.title} has no option {name!r}; it takes {', '.join(known) or 'none'}")
        if not isinstance(value, str) or not value or value[0] == "-" or CONTROL_CHARACTER.search(value):
            raise ValueError(f"{name} must be text that does not begin with '-', not {value!r}")
        if known[name] and value not in known[name]:
            raise ValueError(f"{name} is {value!r}; it takes {', '.join(known[name])}")
    if missing := [each.name for each in rule.options if each.needed and each.name not in options]:
        raise ValueError(f"{missing[0]} is missing: {rule.title} needs it")
    cleartext.check_options(options)
    check_marker(options)


def check_marker(options: dict[str, Any]) -> None:
    marker = options.get(MARKER.name, "")
    if not isinstance(marker, str) or ".." in marker.split("/") or marker.startswith("/"):
        raise ValueError(f"marker {marker!r} must be a path below the source's path")
    if CONTROL_CHARACTER.search(marker):
        raise ValueError(f"marker {marker!r} contains a control character")


def check_secret(rule: KindRule, reference: str) -> None:
    if reference and rule.is_any_remote:
        raise ValueError(f"{rule.title} has its secrets by the names of its options: set `secrets`")
    if rule.secret_needed and not reference:
        raise ValueError(f"is missing: {rule.title} needs one, such as {FORMS}")
    if reference:
        check_reference(reference)


def check_host_key(rule: KindRule, host_key: str) -> None:
    if not rule.has_host_key:
        if host_key:
            raise ValueError(f"{rule.title} has no SSH host key; leave it empty")
        return
    check_key(host_key)


def check_mac_address(mac_address: str, wake_allowed: bool | None) -> None:
    if mac_address and not MAC_ADDRESS.fullmatch(mac_address):
        raise ValueError(f"{mac_address!r} is not a MAC address, such as 02:00:00:aa:bb:cc")
    if wake_allowed and not mac_address:
        raise ValueError("is missing: a source that may be woken needs one, such as 02:00:00:aa:bb:cc")


def check_wake_address(wake_address: str, mac_address: str) -> None:
    if wake_address:
        _check_host(wake_address)
        if contact.is_address(wake_address):  # a name is looked up, and checked, when a packet is sent
            wake_networks.check(wake_address)
    elif mac_address:
        raise ValueError("is missing: a magic packet goes to a broadcast address, such as 255.255.255.255")


def check_restore_target(to: str, target: str) -> None:
    """Raises: ValueError for a place that no restore may be written to."""
    parts = target.split("/")
    if to == "folder" and (not target.startswith("/") or ".." in parts):
        raise ValueError("must be the absolute path of a folder of the worker's host, such as /srv/restored")
    if to == "source" and (target.startswith("/") or ".." in parts):
        raise ValueError("must be a folder below the path of the source, without a leading /, or empty: in place")
    if to == "database" and (not target or len(target.encode()) > LONGEST_DATABASE_NAME or "=" in target):
        raise ValueError("must be the name of a database that does not exist yet")


def check_restore_account(to: str, user: str, secret: str) -> None:
    """Check the account of a restore. Raises: ValueError if it is not used, or lacks a secret, or the reverse."""
    if (user or secret) and to != "database":
        raise ValueError("is for a new database: a folder, or the source, is written with the source's own account")
    if bool(user) is not bool(secret):
        raise ValueError(f"goes with the name of an account: give both, the secret as {FORMS}")
    if secret:
        check_reference(secret)


def check_repository_remote(remote: dict[str, Any], before: dict[str, Any]) -> None:
    if not remote:
        return
    if remote.get("type") == REST_SERVER:
        _check_rest_server(remote, str(before.get("format", "")))
        return
    check_remote(remote)


def _check_rest_server(remote: dict[str, Any], format: str) -> None:
    if format != RESTIC:
        raise ValueError("type rest is a REST server of restic's: choose the format restic")
    if unknown := remote.keys() - {"type", "url", "user", PLAINTEXT}:
        raise ValueError(f"a REST server has no option {min(unknown)!r:.60}; it takes url and user")
    if not isinstance(remote.get("user", ""), str):
        raise ValueError("user must be text")
    check_url(str(remote.get("url", "")))
    if text := cleartext.refusal_of_remote(remote, remote.keys() & {"user"}):  # a user has a password
        raise ValueError(text)


def not_a_folder(location: str) -> str:
    """The reason why a text that looks like a path on this host means something else, such as `s3://bucket`. Empty if
    it may be a path.
    """
    if location.startswith("file:"):
        return "write the path alone, such as /srv/backups"
    if found := ELSEWHERE.match(location):
        kind, path = (found["kind"] or "sftp").lower(), location[found.end() :].lstrip("/") or "bucket/backups"
        if len(kind) == 1 or not kind.isalnum():
            return "it is not a path on this host, which writes the backups; name a directory, such as /srv/backups"
        return (
            f'it names another host: give its settings in `remote`, such as {{"type": "{kind}", …}}, and the path '
            f"there in `location`, such as {path}"
        )
    if location.startswith(("~", "$", "%")):
        return "only a shell reads ~ and variables: write the whole path"
    return ""


def check_repository_location(location: str, before: dict[str, Any]) -> None:
    if CONTROL_CHARACTER.search(location):
        raise ValueError(f"{location!r} contains a control character")
    if not before["remote"] and (why := not_a_folder(location)):
        raise ValueError(f"{location!r} is not a directory: {why}")
    if before["remote"] and "://" in location:
        raise ValueError(f"{location!r} is a URL; name the host in `remote`, and here a path, such as bucket/backups")
    if not before["remote"] and not Path(location).is_absolute():
        raise ValueError(f"{location!r} is not an absolute path, such as /srv/backups")
    if before["remote"] and ".." in location.split("/"):
        raise ValueError(f"{location!r} must not hold '..'")


def check_repository_secrets(secrets: dict[str, str], before: dict[str, Any]) -> None:
    if not (remote := before["remote"]):
        if secrets:
            raise ValueError("are those of a remote; a directory has none")
        return
    if remote["type"] != REST_SERVER:
        check_secrets_of_remote(remote, secrets)
        return
    for reference in secrets.values():
        check_reference(reference)
    if secrets.keys() - {"password"} or bool(secrets) != ("user" in remote):
        raise ValueError("a REST server has one secret, the password of its user: name both, or none")


def check_repository_key(key: str, before: dict[str, Any]) -> None:
    if not key:
        return
    if not before.get("encrypted") and before.get("format") != RESTIC:
        raise ValueError("is that of an encrypted repository; leave it empty, or encrypt it")
    check_reference(key)
