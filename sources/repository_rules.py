"""What the fields of a repository may hold. Each check gets the fields before its own, and raises ValueError."""

from pathlib import Path
from typing import Any

from sources.availability.host_keys import check_host_key
from sources.processes.programs import ProgramMissing
from sources.secrets_by_reference import check_reference
from sources.storage import providers
from sources.validation import CONTROL_CHARACTER


def check_remote(remote: dict[str, Any], before: dict[str, Any]) -> None:
    if not remote:
        return
    try:
        providers.check_remote(remote)
    except ProgramMissing as error:
        raise ValueError(str(error)) from None
    if remote["type"] == "sftp":
        check_host_key(str(remote.get("host_keys", "")).replace(",", "\n"))


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
    for name, reference in secrets.items():
        try:
            check_reference(reference)
        except ValueError as error:
            raise ValueError(f"{name} {error}") from None
    providers.check_complete(remote, secrets)


def check_key(key: str, before: dict[str, Any]) -> None:
    if not key:
        return
    if not before.get("encrypted"):
        raise ValueError("is that of an encrypted repository; leave it empty, or encrypt it")
    check_reference(key)
