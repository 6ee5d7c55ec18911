"""Conditions of the addresses to which sources and repositories lead the workers."""

from collections.abc import Iterator

from django.db.models import Q

from external import special_addresses
from operations.finding import COUNT_TO, Case, Look, condition
from sources.models import Repository, Source
from sources.models.source import SourceKind
from storage.places import servers

MAY_BE_GUARDED = r"169\.254\.|metadata|instance-data|100\.100\.100\.200|168\.63\.129|192\.0\.0\.192|\[|:[^/]*:"
"""A pattern of addresses that may be guarded, to be examined further: the last two are how one of IPv6 is written, in a
URL and alone. The colon of `https:` is not, or each share would be examined."""
LOOPBACK = r"localhost|(^|[/@])0?127\.|(^|[/@])0\."


@condition(
    "no worker is led to a link-local address or the metadata service of a cloud",
    "workers are led to addresses that only an administrator may name: {}",
    "see whether that is intended: an administrator has saved them, or another account before that needed a permission",
)
def guarded_addresses(look: Look) -> Iterator[Case]:
    """Sources and repositories with an address that `external.special_addresses` lets no name lead to."""
    pattern = MAY_BE_GUARDED if special_addresses.loopback_is_open else f"{MAY_BE_GUARDED}|{LOOPBACK}"
    found = Source.objects.filter(Q(address__iregex=pattern) | Q(kind=SourceKind.RCLONE), retired_at=None)
    for pk, name, kind, address, options in found.order_by("name").values_list(
        "pk", "name", "kind", "address", "options"
    )[:COUNT_TO]:
        remote = options if kind == SourceKind.RCLONE else {"url" if "://" in address else "host": address}
        if named := _named(remote):
            yield Case(f"source:{pk}", f"{name}: {named}", None, name)
    for pk, name, remote in Repository.objects.exclude(remote={}).order_by("name").values_list("pk", "name", "remote"):
        if named := _named(remote):
            yield Case(f"repository:{pk}", f"{name}: {named}", None, name)


def _named(remote: object) -> str:
    hosts = servers.hosts_of(remote) if isinstance(remote, dict) else []
    return next((each for each in hosts if special_addresses.names_guarded(each)), "")
