"""Sources, and what a person may want done about one. That of agents is `agents.py`."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Status

from api import history
from api.assignment_schemas import MovedAnswer
from api.auth import Staff, user_of
from api.errors import ApiError, not_valid
from api.models import Scope
from api.resources import Resource
from api.source_schemas import (
    LONGEST_SNOOZE_SECONDS,
    MOVING,
    CheckedInAnswer,
    CodeAnswer,
    RevokedAnswer,
    SourceAnswer,
    SourceFilters,
    StaffSnoozeBody,
)
from jobs.clock import database_clock
from sources import planning
from sources.agents import checkins, tokens
from sources.edits import Sources, policies_of
from sources.models import Assignment, Source
from sources.status import reasons_of, with_status

OPERATING = Staff(Scope.OPERATE, "sources.change_source")
ENROLLING = Staff(Scope.WRITE, "sources.change_source")


class SourcesOfTheApi(Resource[Source]):
    service, tag = Sources, "sources"
    answer, filters = SourceAnswer, SourceFilters
    orderings = ("id", "name", "kind", "inserted_at", "checked_in_at")
    moving = MOVING
    removes = True

    def rows(self) -> QuerySet[Any]:
        protected = Source.objects.order_by().with_protection()
        return with_status(protected, timezone.now()).prefetch_related("assignments__policy__schedule")

    def filtered(self, rows: QuerySet[Any], asked: dict[str, Any]) -> QuerySet[Any]:
        if "paused" in asked:
            rows = rows.filter(paused_at__isnull=not asked["paused"])
        if "policy" in asked:
            # apart from the join over which all assignments of a source are counted
            under = Assignment.objects.filter(policy__schedule__name=asked["policy"])
            rows = rows.filter(pk__in=under.values("source"))
        return rows.filter(**{name: asked[name] for name in ("name", "kind", "status") if name in asked})

    def facts(self, rows: Sequence[Source]) -> list[dict[str, Any]]:
        reasons = reasons_of(rows, timezone.now())
        return [self.own_facts(row) | {"policies": policies_of(row), "reason": reasons[row.pk]} for row in rows]


sources = SourcesOfTheApi()
router = sources.router()


@sources.verb(
    router, "back-up-now", OPERATING, "Back up now", answer=MovedAnswer, named="back_up_source_now", has=["conflict"]
)
def back_up_now(request: HttpRequest, source_id: int) -> dict[str, int]:
    """Under all its policies that are enabled, out of period and window; a snooze is over. `moved`: how many backups.

    What is copied already is left alone.
    """
    source = sources.get(source_id)
    if source.retired:
        raise ApiError(409, "the source is retired", 'first PATCH it with {"retired": false}')
    if source.paused_at is not None:
        raise ApiError(409, "the source is paused", f"resume it first: POST /api/sources/{source_id}/resume")
    moved = planning.back_up_now(source.assignments.all(), asked_by=user_of(request).get_username())
    history.noted(request, source, "Back up now")
    return {"moved": moved}


@sources.verb(router, "snooze", OPERATING, "No backups before")
def snooze(request: HttpRequest, source_id: int, body: StaffSnoozeBody) -> HttpResponse:
    """What runs already goes on."""
    source, now = sources.get(source_id), database_clock()
    until = body.until or now + timedelta(seconds=body.seconds or 0)
    if not now < until <= now + timedelta(seconds=LONGEST_SNOOZE_SECONDS):
        raise not_valid([("until", "must be in the future, and at most a year away")], "or pause the source")
    planning.snooze([source], until, now)
    return _done(request, source, f"Snoozed until {until:%Y-%m-%d %H:%M} UTC")


@sources.verb(router, "snooze", OPERATING, "End the snooze", named="unsnooze_source", method="delete")
def unsnooze(request: HttpRequest, source_id: int) -> HttpResponse:
    """What waited for its end is ready."""
    source = sources.get(source_id)
    planning.unsnooze([source])
    return _done(request, source, "Ended the snooze")


@sources.verb(router, "pause", OPERATING, "No more backups")
def pause(request: HttpRequest, source_id: int, stop: bool = False) -> HttpResponse:
    """Until it is resumed. Backups that run already go on; with `stop`, they are stopped."""
    source = sources.get(source_id)
    planning.pause([source], stop=stop, by=user_of(request).get_username())
    return _done(request, source, "Paused and stopped" if stop else "Paused")


@sources.verb(router, "resume", OPERATING, "Back it up again")
def resume(request: HttpRequest, source_id: int) -> HttpResponse:
    """What is due is on the backlog at once."""
    source = sources.get(source_id)
    planning.resume([source], by=user_of(request).get_username())
    return _done(request, source, "Resumed")


@sources.verb(router, "check-in", OPERATING, "Say that it is here", answer=CheckedInAnswer, named="check_in_source")
def check_in(request: HttpRequest, source_id: int) -> dict[str, Any]:
    """For its agent: what is due is ready at its true place at once. Its addresses stay as its agent said them."""
    source, now = sources.get(source_id), database_clock()
    facts = checkins.Facts(addresses=tuple(source.addresses), reason=f"said by {user_of(request).get_username()}")
    try:
        found = checkins.check_in(source, facts, "", now)
    except checkins.SourceGone as error:
        raise _gone() from error
    history.noted(request, source, "Checked in")
    return {"checked_in_at": found.now, "moved": found.moved}


@sources.verb(
    router, "enrolment-code", ENROLLING, "New enrolment code", answer={201: CodeAnswer}, named="make_enrolment_code"
)
def make_code(request: HttpRequest, source_id: int) -> Status[dict[str, Any]]:
    """An agent exchanges it for a token, once, within an hour. Tokens that the source has stay valid until then."""
    source, now = sources.get(source_id), database_clock()
    try:
        code = tokens.make_code(source, now=now)
    except tokens.Refused as error:
        raise _gone() from error
    history.noted(request, source, "Made an enrolment code")
    answer = {
        "source": source.name,
        "code": code,
        "expires_at": tokens.expires_at(tokens.VALID_FOR_SECONDS, now),
        "command": tokens.enrol_command(request.build_absolute_uri("/"), code),
    }
    return Status(201, answer)


@sources.verb(
    router, "revoke-tokens", ENROLLING, "Revoke its tokens", answer=RevokedAnswer, named="revoke_tokens_of_source"
)
def revoke_tokens(request: HttpRequest, source_id: int) -> dict[str, int]:
    """Every agent of it is refused from now on, and an open enrolment code is void. Backups go on."""
    source = sources.get(source_id)
    try:
        revoked = tokens.revoke(source)
    except tokens.Refused as error:
        raise _gone() from error
    history.noted(request, source, "Revoked its tokens")
    return {"revoked": revoked}


def _done(request: HttpRequest, source: Source, what: str) -> HttpResponse:
    history.noted(request, source, what)
    return sources.respond(sources.get(source.pk))


def _gone() -> ApiError:
    return ApiError(404, "the source was deleted meanwhile", "GET /api/sources lists those there are")
