"""The digest: the state of the fleet, once a day or week, also when all is well. django-q2 asks each hour."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from django.db import transaction
from django.template.defaultfilters import filesizeformat

from alerting import raising, sending
from alerting.models import AlertRoute, Digest
from external.formatting import moment, several
from fleet.status import summary, with_status
from jobs.clock import database_clock
from jobs.zones import zone_of
from sources.domain.status import NEEDS_OPERATOR, ProtectionStatus
from sources.models import Assignment, Backup, Repository, Source

HOUR = 8
"""The hour from which on it is sent, in the zone of its route."""
SHOWN = 10


def send_due(now: datetime | None = None) -> str:
    """Write the digests that are due: the next round of a minute sends them. Returns how many, as text."""
    instant, written = now or database_clock(), 0
    for route in AlertRoute.objects.filter(enabled=True).exclude(digest=Digest.NONE):
        if is_due(route, instant):
            since = instant - timedelta(days=7 if route.digest == Digest.WEEKLY else 1)
            if route.digest_at and route.digest_at <= instant:
                since = route.digest_at
            title, body = text(since, instant)
            with transaction.atomic():
                sending.put(route, title, body, now=instant)
                AlertRoute.objects.filter(pk=route.pk).update(digest_at=instant)
            written += 1
    return several(written, "digest")


def is_due(route: AlertRoute, now: datetime) -> bool:
    """True from eight in the morning on, of each day or Monday; later, even on another day, if nothing ran then. The
    first digest of a route comes on such a day. One that is dated in the future was of a clock that was ahead."""
    here = now.astimezone(zone_of(route.zone))
    latest = here.replace(hour=HOUR, minute=0, second=0, microsecond=0)
    latest -= timedelta(days=here < latest)
    latest -= timedelta(days=latest.weekday() if route.digest == Digest.WEEKLY else 0)
    if route.digest_at is None:
        return latest.date() == here.date()
    return not latest <= route.digest_at <= now


def text(since: datetime, now: datetime) -> tuple[str, str]:
    """Title and text of the news since `since`, and of the state at `now`."""
    sentence = summary(now, need_alone=True).sentence
    return f"Backups: {sentence}", "\n\n".join("\n".join(block) for block in _blocks(sentence, since, now))


def _blocks(sentence: str, since: datetime, now: datetime) -> Iterator[list[str]]:
    yield [f"{sentence}."]
    in_need = with_status(Source.objects.filter(retired_at=None, paused_at=None), now)
    needs = in_need.filter(status__in=list(NEEDS_OPERATOR)).order_by("status_rank", "name")[: SHOWN + 1]
    alerts = raising.open_alerts()[: SHOWN + 1]
    for title, lines in (
        ("In need:", [f"  {each.name}: {ProtectionStatus(each.status)}" for each in needs]),
        ("Open alerts:", [f"  {each.get_kind_display()}: {each}" for each in alerts]),
    ):
        if lines:
            yield [title, *lines[:SHOWN], *(["  … and more"] if len(lines) > SHOWN else [])]
    backups = Backup.objects.filter(ended_at__gt=since).count()
    failed = Assignment.objects.active().filter(failures__gt=0).count()
    proved = Assignment.objects.filter(proved_at__gt=since).count()
    yield [
        f"Since {moment(since)} UTC: {several(backups, 'backup')}; failing now: {several(failed, 'assignment')}; "
        f"proved: {several(proved, 'point')}."
    ]
    rooms = Repository.objects.filter(room_free__isnull=False).order_by("name").values_list("name", "room_free")
    if rooms:
        yield ["Room:", *(f"  {name}: {filesizeformat(free or 0)} free" for name, free in rooms)]
