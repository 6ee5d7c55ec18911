"""Sources, and the operations on one that users ask for. Those of agents are in `agents.py`."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any

from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from ninja import Field, Query, Schema, Status

from api.auth import Staff, name_of, viewing
from api.declared_resources import DeclaredResource
from api.errors import ApiError, not_valid
from api.explanations import AtRiskAnswer, ExplainQuery, GroupsAnswer, SourceExplanationAnswer, StartsAnswer
from api.fields import MovedAnswer, Name, RowAnswer
from api.models import Scope
from api.pages import patiently
from api.pausing import PauseRequest
from fleet.explaining import expected_starts, explain_source
from fleet.explaining.groups import explain_all
from fleet.explaining.history import NotKept
from fleet.foreseeing.latest_look import latest_look
from fleet.source_edits import Sources, policies_of
from fleet.status import reasons_of, with_status
from fleet.status.of_all import in_status
from jobs.clock import database_clock
from sources import planning
from sources.agents import checkins, tokens
from sources.declarations import resources
from sources.domain.status import ProtectionStatus
from sources.models import Assignment, Source

EXPLAINING_SECONDS = 10.0
"""The limit of an answer over all sources, with its statements and all processing."""

OPERATING = Staff(Scope.OPERATE, "sources.change_source")
ENROLLING = Staff(Scope.WRITE, "sources.change_source")


class SourceAnswer(
    RowAnswer,
    resources.SourceDeclaration,
    of=Source,
    names="id inserted_at hostname on_battery metered clock_skew last_woken_at wakes",
):
    """A source. The fields from `id` on are set by machines and by actions."""

    status: ProtectionStatus = Field(description="Over all its assignments, worst first")
    reason: str = Field(description="Why it is not protected, or does not run now, and when it is tried next")
    policies: list[str] = Field(description="Names of the policies that it is under")
    paused_at: datetime | None = Field(description="Since when it is paused")
    paused_until: datetime | None = Field(
        description="When it is resumed automatically; null if a user has to resume it"
    )
    paused_why: str
    paused_by_user: bool = Field(description="True if its user paused it, through its agent")
    checked_in_at: datetime | None = Field(description="When its agent, or a user, last reported that it is here")
    addresses: Any


class SourcePauseQuery(PauseRequest):
    """`stop`: also stop its running backups."""

    stop: Annotated[bool, Field(strict=False)] = False


class CheckedInAnswer(Schema):
    """The instant at which the source was noted as present, and the number of records that this moved."""

    checked_in_at: datetime
    moved: int


class CodeAnswer(Schema):
    """An enrolment code, shown this once. `command` is to be typed on the machine of the source."""

    source: str
    code: str
    expires_at: datetime
    command: str


class RevokedAnswer(Schema):
    """The number of tokens that were valid until now."""

    revoked: int


def _is_under(policy: str) -> Q:
    """Apart from the join over which all assignments of a source are counted."""
    return Q(pk__in=Assignment.objects.filter(policy__schedule__name=policy).values("source"))


class SourcesOfTheApi(DeclaredResource[Source]):
    service, tag, answer = Sources, "sources", SourceAnswer
    filters = {
        "name": Name,
        "kind": resources.KindOfSource,
        "status": ProtectionStatus,
        "paused": bool,
        "policy": (Name, "Name of a policy that it is under"),
    }
    lookups = {
        "status": lambda status: in_status([status], timezone.now()),
        "paused": lambda paused: Q(paused_at__isnull=not paused),
        "policy": _is_under,
    }
    computed = {"policies": policies_of}
    orderings = ("id", "name", "kind", "inserted_at", "checked_in_at")
    removes = True

    def rows(self) -> QuerySet[Any]:
        protected = Source.objects.order_by().with_protection()
        return with_status(protected, timezone.now()).prefetch_related("assignments__policy__schedule")

    def facts(self, rows: Sequence[Source]) -> list[dict[str, Any]]:
        reasons = reasons_of(rows, timezone.now())
        return [self.own_facts(row) | {"reason": reasons[row.pk]} for row in rows]


resource = SourcesOfTheApi()
router = resource.router


@resource.verb(
    "back-up-now", OPERATING, "Back up now", answer=MovedAnswer, named="back up source now", has=["conflict"],
    noted="Back up now",
)  # fmt: skip
def back_up_now(request: HttpRequest, source: Source) -> dict[str, int]:
    """Back it up under all its enabled policies, regardless of period and window. `moved`: the number of backups.

    A backup that is already being made is left alone.
    """
    if source.retired:
        raise ApiError(409, "the source is retired", 'first PATCH it with {"retired": false}')
    if source.paused_at is not None:
        raise ApiError(409, "the source is paused", f"resume it first: POST /api/sources/{source.pk}/resume")
    return {"moved": planning.back_up_now(source.assignments.all(), asked_by=name_of(request))}


@resource.verb(
    "explain", viewing("sources.source"), "Why its backups do not run", answer=SourceExplanationAnswer,
    named="explain source", method="get",
)  # fmt: skip
def explain(request: HttpRequest, source: Source, query: Query[ExplainQuery]) -> dict[str, Any]:
    """Each reason in the order in which they would have to end, with its numbers. With `at`: as it was then."""
    try:
        found = explain_source(source, database_clock(), policy=query.policy, at=query.at)
    except ValueError as error:
        raise not_valid(
            [("at" if isinstance(error, NotKept) else "policy", str(error))], "GET /api/sources/{id} names its policies"
        ) from error
    return {"name": source.name, "under": [each.as_facts for each in found]}


@resource.verb(
    "when", viewing("sources.source"), "When its backups are expected to start", answer=StartsAnswer,
    named="expect source", method="get",
)  # fmt: skip
def when(request: HttpRequest, source: Source) -> dict[str, Any]:
    """The expected start, found by running the present claims forward; or why there is no estimate."""
    with patiently("ask again later"):
        found = expected_starts(source, database_clock())
    return {"name": source.name, "under": [{"policy": policy} | asdict(each) for policy, each in found]}


@router.get(
    "/sources/explain", auth=viewing("sources.source"), response=GroupsAnswer, operation_id="explain_sources",
    summary="Why backups do not run, over all sources",
)  # fmt: skip
def explain_sources(request: HttpRequest) -> dict[str, Any]:
    """Each source under each policy counts once, by its first reason; the most frequent reason first."""
    now = database_clock()
    with patiently("ask again later", whole=EXPLAINING_SECONDS) as check_time:
        return {"at": now, "groups": [each.as_facts for each in explain_all(now, check_time)]}


@router.get(
    "/sources/at-risk", auth=viewing("sources.source"), response=AtRiskAnswer, operation_id="get_sources_at_risk",
    summary="Sources that will probably miss their period",
)  # fmt: skip
def get_at_risk(request: HttpRequest) -> dict[str, Any]:
    """The latest forecast of a periodic task, which makes one every quarter of an hour."""
    return asdict(latest_look(database_clock()))


@resource.verb("pause", OPERATING, "No more backups")
def pause(request: HttpRequest, source: Source, query: Query[SourcePauseQuery]) -> None:
    """The source is paused until it is resumed, by a user or automatically at `until`. Running backups continue, unless
    `stop` is given.
    """
    planning.pause([source], stop=query.stop, by=name_of(request), **query.checked())


@resource.verb("resume", OPERATING, "Back it up again")
def resume(request: HttpRequest, source: Source) -> None:
    """Due backups are on the backlog at once."""
    planning.resume([source], by=name_of(request))


@resource.verb(
    "check-in", OPERATING, "Report that it is here", answer=CheckedInAnswer, named="check in source", noted="Checked in"
)
def check_in(request: HttpRequest, source: Source) -> dict[str, Any]:
    """A check-in in place of its agent: due backups are ready at their true place at once. Addresses stay as the agent
    gave them.
    """
    facts = checkins.Facts(addresses=tuple(source.addresses), reason=f"reported by {name_of(request)}")
    try:
        found = checkins.check_in(source, facts, "", database_clock())
    except checkins.SourceGone as error:
        raise _gone() from error
    return {"checked_in_at": found.now, "moved": found.moved}


@resource.verb(
    "enrolment-code", ENROLLING, "New enrolment code", answer={201: CodeAnswer}, named="make enrolment code",
    noted="Made an enrolment code",
)  # fmt: skip
def make_code(request: HttpRequest, source: Source) -> Status[dict[str, Any]]:
    """An agent exchanges it for a token, once, within an hour. Tokens that the source has stay valid until then."""
    now = database_clock()
    try:
        code = tokens.make_code(source, now=now)
    except tokens.CredentialRefused as error:
        raise _gone() from error
    answer = {
        "source": source.name,
        "code": code,
        "expires_at": tokens.expires_at(tokens.VALID_FOR_SECONDS, now),
        "command": tokens.enrol_command(request.build_absolute_uri("/"), code),
    }
    return Status(201, answer)


@resource.verb(
    "revoke-tokens", ENROLLING, "Revoke its tokens", answer=RevokedAnswer, named="revoke tokens of source",
    noted="Revoked its tokens",
)  # fmt: skip
def revoke_tokens(request: HttpRequest, source: Source) -> dict[str, int]:
    """All its agents are refused from now on, and an open enrolment code is void. Backups continue."""
    try:
        return {"revoked": tokens.revoke(source)}
    except tokens.CredentialRefused as error:
        raise _gone() from error


def _gone() -> ApiError:
    return ApiError(404, "the source was deleted in the meantime", "GET /api/sources lists those there are")
