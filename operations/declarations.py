"""Retry policies and throttles. They are declared above `jobs`, which needs Django and psycopg alone."""

from collections.abc import Iterable
from typing import Annotated, Any

from django.db import transaction
from django.db.models import F, QuerySet
from pydantic import AfterValidator, BaseModel, Field, ValidationInfo, field_validator

from declarations.parts import Part, Parts, Takes
from declarations.service import Service
from declarations.types import STRICT, JsonObject, Positive, Title, WholeSeconds
from external import durations
from external.durations import span
from external.formatting import several
from jobs import conf, models, rescheduling, retries
from jobs.models import BacklogRecord
from jobs.states import FINISHED, UNFINISHED
from operations import throttles

MOST_IN_FLIGHT = 1_000_000
MOST_A_SECOND = 1_000_000
MOST_COUNTED = 1_000
"""Records have no index by retry policy: counting all would read the whole backlog."""


def _known(algorithm: str) -> str:
    if algorithm not in retries.ALGORITHMS:
        raise ValueError(f"unknown algorithm {algorithm!r:.50}; one of {', '.join(sorted(retries.ALGORITHMS))}")
    return algorithm


AlgorithmName = Annotated[str, Field(json_schema_extra={"enum": sorted(retries.ALGORITHMS)}), AfterValidator(_known)]


def _parameter(name: str) -> Part:
    """A parameter of the algorithms that have it, with the value that it usually has for each."""
    usual: dict[Any, list[str]] = {}
    for each, algorithm in sorted(retries.ALGORITHMS.items()):
        if name in algorithm.defaults:
            usual.setdefault(algorithm.defaults[name], []).append(each)
    of_all = [each for alike in usual.values() for each in alike]
    choices = retries.ALGORITHMS[of_all[0]].choices.get(name, ())
    values = ", ".join(f"{value} for {', '.join(alike)}" for value, alike in usual.items())
    left_empty = f"Default: {next(iter(usual)) if len(of_all) == 1 else values}"
    return Part(
        name,
        takes=Takes.ONE_OF if choices else Takes.WHOLE,
        means=left_empty if choices else f"Seconds, or text such as 15m. {left_empty}",
        suggested=choices,
        only_for=tuple(of_all),
    )


PARAMETERS = Parts(
    tuple(map(_parameter, dict.fromkeys(name for each in retries.ALGORITHMS.values() for name in each.defaults))),
    means="The numbers of its formula. The picture shows their effect",
    chosen_by="algorithm",
)


def in_seconds(algorithm: Any, parameters: Any) -> Any:
    """Parameters with durations that were written as `15m` in seconds; anything else is left as it is."""
    known = retries.ALGORITHMS.get(algorithm) if isinstance(algorithm, str) else None
    if known is None or not isinstance(parameters, dict):
        return parameters
    return {key: value if key in known.choices else _seconds(value) for key, value in parameters.items()}


def _seconds(value: Any) -> Any:
    try:
        return durations.parse(value) if isinstance(value, str) else value
    except ValueError:
        return value


class RetryPolicyDeclaration(BaseModel):
    """The rule for a record's wait after its k-th failure, and for giving up. Durations are seconds, or such as
    `15m`."""

    model_config = STRICT

    name: Title
    algorithm: AlgorithmName = Field(description="The formula of its waits")
    parameters: Annotated[JsonObject, PARAMETERS] = Field(
        default_factory=dict,
        description=(
            'Parameters of the algorithm, such as {"unit": 60} or {"unit": "15m"}. Those that are left out '
            "have their defaults"
        ),
    )
    max_delay: WholeSeconds = Field(86_400, description="The longest wait")
    max_failures: Positive | None = Field(None, description="Give up at this many failures. Never if empty")
    give_up_after: WholeSeconds | None = Field(
        None, description="Give up at a failure that comes this long after the first one. Never if empty"
    )

    @field_validator("parameters", "max_failures")
    @classmethod
    def _suits_its_algorithm(cls, value: Any, info: ValidationInfo) -> Any:
        if algorithm := info.data.get("algorithm"):
            if info.field_name == "parameters":
                value = in_seconds(algorithm, value)
            given = {"parameters": {}, "max_failures": None} | {str(info.field_name): value}
            if found := retries.problems(algorithm, **given).get(str(info.field_name)):
                raise ValueError("; ".join(found))
        return value


class ThrottleDeclaration(BaseModel):
    """A cap on records in flight, and on the number that begin per second, shared by everything that names it."""

    model_config = STRICT

    name: Title
    max_in_flight: Annotated[int, Field(ge=0, le=MOST_IN_FLIGHT)] = Field(
        description="Records that may run at the same instant. If 0, everything that names it is paused"
    )
    rate: Annotated[float, Field(ge=0.001, le=MOST_A_SECOND)] | None = Field(
        None, description="Records that may begin per second in the long run. As many as may run if empty"
    )
    burst: Annotated[int, Field(ge=1, le=MOST_IN_FLIGHT)] | None = Field(
        None, description="Records that may begin at once after a pause. As many as in a second, at least one, if empty"
    )


class RetryPolicies(Service[models.RetryPolicy]):
    model, declaration = models.RetryPolicy, RetryPolicyDeclaration

    def write(self, row: models.RetryPolicy, changed: set[str] | None) -> list[str]:
        """Reschedule the records that wait by it once the edit is committed: locks of many records must not last as
        long.

        A record that fails to follow does so at its next failure, so an error is logged and no more.
        """
        super().write(row, changed)
        if changed and changed & set(retries.DECIDING):
            transaction.on_commit(lambda: rescheduling.apply(row), robust=True)  # a partial has no name for the log
        return []

    def uses(self, row: models.RetryPolicy) -> list[str]:
        """The uses of the policy, also the unfinished and finished records under it."""
        found, records = super().uses(row), BacklogRecord.objects.filter(retry_policy=row)
        if unfinished := _counted(records.filter(status__in=UNFINISHED)):
            found.append(f"{row}: {unfinished} on the backlog; let them end, or cancel them")
        if finished := _counted(records.filter(status__in=FINISHED)):
            found.append(
                f"{row}: {finished} that ended under it; each is deleted "
                f"{span(conf.keep_finished().total_seconds())} after its end, and until then the policy can be "
                "renamed, but not deleted"
            )
        return found


def _counted(records: QuerySet[BacklogRecord]) -> str:
    """The number of records, as `3 records`; empty if there are none."""
    count = records.order_by()[: MOST_COUNTED + 1].count()
    if count > MOST_COUNTED:
        return f"more than {MOST_COUNTED:,} records"
    return several(count, "record") if count else ""


class Throttles(Service[models.Throttle]):
    """Throttles. An edit takes effect at the next claim; running records continue."""

    model, declaration = models.Throttle, ThrottleDeclaration

    def write(self, row: models.Throttle, changed: set[str] | None) -> list[str]:
        """Save, and warn of values that may not be intended. A paused throttle keeps the number that was in flight
        before; an open one forgets its pause.
        """
        if changed and "max_in_flight" in changed:
            stored = models.Throttle.objects.filter(pk=row.pk)
            if row.max_in_flight:
                stored.update(paused_until=None, paused_why="", in_flight_before=None)
            else:
                stored.update(in_flight_before=F("max_in_flight"))
        super().write(row, changed)
        [live] = throttles.live([row.pk])
        return throttles.warnings(row, live)

    def uses(self, row: models.Throttle) -> list[str]:
        """The uses of the throttle, also its unfinished records, which would continue unthrottled."""
        [live] = throttles.live([row.pk])
        found = throttles.obstacle_to_removing(live)
        return [*super().uses(row), *([f"{found}. Let them end or cancel them first"] if found else [])]

    def remove(self, rows: Iterable[models.Throttle]) -> None:
        """Lock all throttles before any lane, and look for their uses behind the locks."""
        throttles.remove(rows)

    def delete(self, row: models.Throttle) -> None:
        throttles.remove([row])
