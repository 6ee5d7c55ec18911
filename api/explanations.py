"""Requests and answers about why backups do not run, and when they start."""

from datetime import datetime

from ninja import Schema

from api.fields import Instant, Name, RowAnswer
from api.record_schemas import ExplanationAnswer
from fleet.explaining.when import ExpectedStart
from fleet.foreseeing.latest_look import AtRisk
from operations.backlog.reason import Code


class ExplainQuery(Schema):
    """`policy`: the name of one that it is under; without it: under all. `at`: an instant in the past."""

    policy: Name | None = None
    at: Instant | None = None


class ExplainedAnswer(ExplanationAnswer):
    """The reasons under a policy; null: it is under none, or being deleted. `record`: its record on the backlog."""

    policy: str | None
    record: int | None


class SourceExplanationAnswer(Schema):
    """The reasons why the backups of a source do not run, under each of its policies."""

    name: str
    under: list[ExplainedAnswer]


class StartAnswer(RowAnswer, of=ExpectedStart, names="record at earliest latest because"):
    """The start of a backup: from `earliest` to `latest` in about nine cases of ten. `at` is the estimate: for a laptop
    that waits for a unit, the start is within ten minutes of it in more than half of the cases; otherwise seldom. Null
    if there is no estimate; `because` is the reason.
    """

    policy: str


class StartsAnswer(Schema):
    """The expected starts of a source's backups, under each of its policies."""

    name: str
    under: list[StartAnswer]


class RiskAnswer(Schema):
    """An assignment with the probability that it is protected before its period ends."""

    assignment: int
    source: str
    source_id: int
    policy: str
    probability: float
    why: str
    until: datetime


class AtRiskAnswer(RowAnswer, of=AtRisk, names="at number looked_at unnamed units units_needed because"):
    """The latest look ahead; `because`: why there is none; `at_risk`: the first ones; `unnamed`: about how many
    others will probably miss their period, above all early in a day; `units_needed`: enough for 99 % of the
    present sources, null if unknown."""

    at_risk: list[RiskAnswer]


class GroupAnswer(Schema):
    """The number of sources under policies that a reason keeps from running, and some of their names."""

    code: Code
    what: str
    number: int
    names: list[str]


class GroupsAnswer(Schema):
    """The most frequent reason first."""

    at: datetime
    groups: list[GroupAnswer]
