"""The reach of the workers, as far as an account that edits sources and repositories may use it.

The workers read and write with their own account, which may do more than the user who edits. So a user needs a separate
permission to name the place of a password, and another to name a folder outside `settings.FOLDERS`. The first one is
needed, too, for sources that are reached with the worker's own accounts, and for addresses of
`external.special_addresses`. A source that is pointed elsewhere by an account without the first one loses its password:
it would be sent to a server of that account's choice.
"""

import os
from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError

from engines.whereabouts import real_path_of
from external import special_addresses
from external.network.bounded_threads import BoundedThreads
from sources.models import Repository, Source
from sources.models.source import ON_THIS_HOST, SourceKind
from storage.places import providers, servers

SET_SECRET = "sources.set_secret_of_source"  # noqa: S105 - a permission
EXPORT_KEY = "sources.export_key_of_repository"
ANY_FOLDER = "sources.use_any_folder"

PATIENCE_SECONDS = 5.0
"""The limit for a look at the path of a source, which a web page waits for."""
looks = BoundedThreads("look-at-path", 4)

POINTS_AT = ("kind", "address", "port", "host_key", "options")
"""The fields that decide who gets the password of a source, and under which name."""

CLEARED = (
    "Its secret was cleared: its address, port, kind, host key or options were changed by an account that may not set "
    "where passwords are found. Let an administrator set it again."
)

CLEARED_OF_REPOSITORY = (
    "Its secrets were cleared: its remote or location was changed by an account that may not set where passwords are "
    "found. Let an administrator set them again."
)


def check_answers(row: Source) -> None:
    """Raises: ValidationError for a path on this host that does not answer: a look at a dead share waits until it is
    back, and a web server has few threads.
    """
    if row.kind in ON_THIS_HOST:
        try:
            looks.call_now(row.path, partial(os.path.realpath, row.path), PATIENCE_SECONDS)
        except TimeoutError:
            text = f"{row.path} has not answered within {PATIENCE_SECONDS:g} s; is its share dead?"
            raise ValidationError({"path": f"{text} Save it when that is back"}) from None


def check_source(account: Any, row: Source) -> list[str]:
    """Check the changes that `account` made to a source that is valid, before it is saved; clear its secret if need be.

    Returns notices for the user. Raises: ValidationError naming the field.
    """
    stored = Source.objects.filter(pk=row.pk).first() if row.pk else None
    if row.kind in ON_THIS_HOST and not _is_same(stored, row, ("kind", "path", "options", "real_path")):
        real = Path(row.real_path) if row.real_path else None
        check_folder(account, "path", row.path, settings.FOLDERS, real)
    certificates = row.options.get("sslrootcert", "system")
    if certificates != "system" and not _is_same(stored, row, ("options",)):
        check_folder(account, "options", certificates, [*settings.FOLDERS, *settings.SECRETS_DIRECTORIES])
    if account.has_perm(SET_SECRET):
        return []
    _check_secrets(stored, row, ("secret", "secrets"))
    is_elsewhere = not _is_same(stored, row, POINTS_AT)
    if row.kind == SourceKind.RCLONE and is_elsewhere:
        _check_ways(row.options, "options")
    elif is_elsewhere and row.kind not in ON_THIS_HOST:
        _check_hosts([row.address] if "://" not in row.address else servers.hosts_of({"url": row.address}), "address")
    cleared = bool((row.secret or row.secrets) and is_elsewhere)
    if cleared:
        row.secret, row.secrets = "", {}
    _check_socket(stored, row)
    return [CLEARED] if cleared else []


def _check_socket(stored: Source | None, row: Source) -> None:
    """Raises: ValidationError for a database that would be dumped by the identity of the worker: at a socket without a
    secret the server trusts the account that asks, which may read any of its databases.
    """
    goes_by_account = row.address.startswith("/") and not row.secret
    if goes_by_account and not _is_same(stored, row, (*POINTS_AT, "path", "secret")):
        text = (
            "your account may not let workers use their own accounts, and without a secret a server at a socket goes "
            "by those"
        )
        raise ValidationError({"address": f"{text}; name its host and a secret, or ask an administrator"})


def check_repository(account: Any, row: Repository) -> list[str]:
    """Check the places to which `account` lets the workers write, and the credentials; clear its secrets if need be.

    Returns notices for the user. Raises: ValidationError naming the field.
    """
    stored = Repository.objects.filter(pk=row.pk).first() if row.pk else None
    if not row.remote and not _is_same(stored, row, ("location", "remote")):
        check_folder(account, "location", row.location, settings.FOLDERS)
    if account.has_perm(SET_SECRET):
        return []
    _check_secrets(stored, row, ("secrets", "key"))
    is_elsewhere = not _is_same(stored, row, ("remote", "location"))
    if is_elsewhere:
        _check_ways(row.remote, "remote")
    if row.secrets and is_elsewhere:
        row.secrets = {}
        return [CLEARED_OF_REPOSITORY]
    return []


def _check_secrets(stored: Any, row: Any, fields: tuple[str, ...]) -> None:
    for field in fields:
        if getattr(row, field) and not _is_same(stored, row, (field,)):
            raise ValidationError({field: "your account may not set where passwords are found; ask an administrator"})


def _check_ways(remote: dict[str, Any], field: str) -> None:
    if own := providers.of_the_worker(remote):
        text = "your account may not let workers use their own files, accounts or ways out; ask an administrator"
        raise ValidationError({field: f"{', '.join(own)}: {text}"})
    _check_hosts(servers.hosts_of(remote), field)


def _check_hosts(hosts: Collection[str], field: str) -> None:
    """Raises: ValidationError for an address that no name may lead to."""
    if named := [each for each in hosts if special_addresses.names_guarded(each)]:
        loopback = "" if special_addresses.loopback_is_open else ", loopback"
        text = f"your account may not lead workers to link-local addresses{loopback} or the metadata service of a cloud"
        raise ValidationError({field: f"{named[0]}: {text}; ask an administrator"})


def _is_same(stored: Any, row: Any, fields: tuple[str, ...]) -> bool:
    return stored is not None and all(getattr(stored, field) == getattr(row, field) for field in fields)


def place_of(account: Any, row: Source) -> str:
    """The place to which a source's path leads, for `account` (any if None) to save. Empty if it is not in a folder on
    this host, or if that cannot be determined here and the first run should look; for an account that may not name any
    folder, the place to which the existing part of the path leads.
    """
    if row.kind not in ON_THIS_HOST:
        return ""
    means_any = account is None or account.has_perm(ANY_FOLDER)
    return real_path_of(row.path) or ("" if means_any else os.path.realpath(row.path))


def keep_place(row: Source) -> None:
    """Note where the path of a source leads at its first run, where that was not known when it was saved."""
    if row.kind in ON_THIS_HOST and not row.real_path and (real := real_path_of(row.path)):
        same = {"kind": row.kind, "path": row.path, "real_path": ""}  # it may have been edited in the meantime
        if Source.objects.filter(pk=row.pk, **same).update(real_path=real):
            row.real_path = real


def check_folder(account: Any, field: str, folder: str, roots: Collection[Path], real: Path | None = None) -> None:
    """Check a folder. Raises: ValidationError if it is in none of `roots`, and `account` may not name others. `real`:
    the folder to which its links lead, if that is known already.
    """
    if account.has_perm(ANY_FOLDER):
        return
    for path in (Path(os.path.normpath(folder)), real or Path(folder).resolve()):  # where links lead as well
        if not any(root == path or root in path.parents for root in roots):
            allowed = ", ".join(map(str, roots))
            raise ValidationError(
                {field: f"your account may name folders below {allowed} only; ask an administrator, or name one there"}
            )
