"""What the fields of a repository may hold. Each check gets the fields before its own, and raises ValueError."""

from pathlib import Path
from typing import Any

from sources import validation
from sources.engines import cleartext
from sources.secrets_by_reference import check_reference
from sources.storage.location import RESTIC
from sources.storage.providers import PLAINTEXT
from sources.storage.remotes import REST_SERVER
from sources.validation import CONTROL_CHARACTER, check_url


def check_remote(remote: dict[str, Any], before: dict[str, Any]) -> None:
    if not remote:
        return
    if remote.get("type") == REST_SERVER:
        _check_rest_server(remote, str(before.get("format", "")))
        return
    validation.check_remote(remote)


def _check_rest_server(remote: dict[str, Any], format: str) -> None:
    if format != RESTIC:
        raise ValueError("type rest is a REST server of restic's: choose the format restic")
    if unknown := remote.keys() - {"type", "url", "user", PLAINTEXT}:
        raise ValueError(f"a REST server has no option {min(unknown)!r:.60}; it takes url and user")
    if not isinstance(remote.get("user", ""), str):
        raise ValueError("user must be text")
    check_url(str(remote.get("url", "")))
    if text := cleartext.refusal_of_remote(remote, remote.keys() & {"user"}):  # who has one has a password
        raise ValueError(text)


def check_location(location: str, before: dict[str, Any]) -> None:
    if CONTROL_CHARACTER.search(location):
        raise ValueError(f"{location!r} holds a control character")
    if not before["remote"] and not Path(location).is_absolute():
        raise ValueError(f"{location!r} is not an absolute path, as /srv/backups")
    if before["remote"] and ".." in location.split("/"):
        raise ValueError(f"{location!r} must not hold '..'")


def check_secrets(secrets: dict[str, str], before: dict[str, Any]) -> None:
    if not (remote := before["remote"]):
        if secrets:
            raise ValueError("are those of a remote; a directory has none")
        return
    if remote["type"] != REST_SERVER:
        validation.check_secrets_of_remote(remote, secrets)
        return
    for reference in secrets.values():
        check_reference(reference)
    if secrets.keys() - {"password"} or bool(secrets) != ("user" in remote):
        raise ValueError("a REST server has one secret, the password of its user: name both, or none")


def check_key(key: str, before: dict[str, Any]) -> None:
    if not key:
        return
    if not before.get("encrypted") and before.get("format") != RESTIC:
        raise ValueError("is that of an encrypted repository; leave it empty, or encrypt it")
    check_reference(key)
