"""A source as its engine sees it, with its secrets read, and whether these may be sent to it."""

from dataclasses import replace

from engines import cleartext
from engines.base import SourceSpec
from sealing.lookup import SecretNotFound, read_secret_in_time
from sources.models import Source
from sources.models.source import SourceKind


def specification_of(source: Source) -> SourceSpec:
    """A source as engines see it. Raises: SecretNotFound."""
    return SourceSpec(
        name=source.name,
        kind=source.kind,
        address=source.address,
        port=source.port,
        path=source.path,
        options=dict(source.options),
        secret=read_secret_in_time(source.secret),
        host_key=source.host_key,
        secrets={name: read_secret_in_time(reference) or "" for name, reference in source.secrets.items()},
        real_path=source.real_path,
    )


def specification_as(source: Source, user: str, secret: str) -> SourceSpec:
    """The same as another account of its server reaches it, whose password `secret` refers to; the source's account if
    no user is named. Raises: SecretNotFound, also for one that was forgotten since.
    """
    found = specification_of(source)
    if not user:
        return found
    if not secret:
        raise SecretNotFound(
            f"where the password of {user} is found was forgotten when the restore ended: ask for it again"
        )
    return replace(found, options=found.options | {"user": user}, secret=read_secret_in_time(secret))


def refused_in_clear(source: SourceSpec) -> str:
    """The reason why its password may not be sent; empty if it may."""
    if source.kind in (SourceKind.S3, SourceKind.WEBDAV):
        return cleartext.refusal(source.address, source.secret, source.options)
    return cleartext.refusal_of_remote(source.options, source.secrets) if source.kind == SourceKind.RCLONE else ""
