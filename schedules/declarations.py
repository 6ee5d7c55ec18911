"""The declaration of a schedule, with all rules that need no table."""

from typing import Annotated, Any

from pydantic import AfterValidator, AliasChoices, AliasGenerator, BaseModel, ConfigDict, Field, ValidationInfo
from pydantic import field_validator as checks

from declarations.types import DURATION, PRINTABLE, STRICT, Choice, Json, Priority, Reference, Title
from schedules import templates
from schedules.cron import check_expression, check_zone, from_fields
from schedules.cron_doubts import check_steps
from schedules.models import Late, Overlap, Stagger

OF_POLICIES = "assignments"
"""The provider of the schedules of policies, which are made with them."""

LARGEST_BATCH = 1_000_000
LONGEST_WINDOW = 31 * 86_400
LONGEST_CATCH_UP = 366 * 86_400

CronPart = Annotated[str, Field(max_length=50), PRINTABLE] | Annotated[int, Field(ge=0)]


def published(name: str) -> str:
    """The name of a field of a schedule as the batch scheduler publishes it: `DayOfMonth`."""
    return "".join(word.capitalize() for word in name.split("_"))


def _with_published_names(schema: dict[str, Any]) -> None:
    schema["properties"] |= {published(name): field for name, field in schema["properties"].items()}


class CronFields(BaseModel):
    """The times of triggers, by fields. A field that is left out takes any value. A minute that is left out while hours
    are given is on the hour. Each is also taken by its published name: `Minute`, `Hour`, `DayOfMonth`, `Month`,
    `DayOfWeek`.
    """

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        alias_generator=AliasGenerator(validation_alias=lambda name: AliasChoices(name, published(name))),
        json_schema_extra=_with_published_names,
    )

    minute: CronPart | None = None
    hour: CronPart | None = None
    day_of_month: CronPart | None = None
    month: CronPart | None = None
    day_of_week: CronPart | None = None


def _expression(cron: str | CronFields) -> str:
    if isinstance(cron, CronFields):
        expression = from_fields(**dict(cron))
    else:
        check_expression(expression := cron)
    check_steps(expression)
    return expression


def _zone(zone: str) -> str:
    check_zone(zone)
    return zone


Cron = Annotated[
    Annotated[str, Field(min_length=1, max_length=100), PRINTABLE] | CronFields, AfterValidator(_expression)
]
"""Five fields as one text, or as an object, which becomes that text."""

Zone = Annotated[str, Field(min_length=1, max_length=64), PRINTABLE, AfterValidator(_zone)]
Word = Annotated[str, Field(max_length=50), PRINTABLE]


class ScheduleDeclaration(BaseModel):
    """A cron expression in a time zone, each trigger of which puts a batch of records on the backlog. Durations are
    seconds, or text such as `15m`.
    """

    model_config = STRICT

    name: Title
    enabled: bool = Field(True, description="It triggers nothing while it is disabled")
    cron: Cron = Field(description="Minute, hour, day of month, month, day of week, such as `0 9 * * 1-5`")
    zone: Zone = Field("UTC", description="IANA time zone, such as Europe/Berlin")
    provider: Word = Field(
        "", description="The function that yields the batch of a trigger. The batch is its events if empty"
    )
    event_count: Annotated[int, Field(ge=1, le=LARGEST_BATCH)] | None = Field(
        1, description="Events that a trigger yields. 1 is plain cron. Decided by its provider if empty"
    )
    window_for: Annotated[int, Field(ge=0, le=LONGEST_WINDOW), DURATION] = Field(
        0, description="Time after the trigger in which its batch should be done. No window if 0"
    )
    stagger: Annotated[Stagger, Choice()] = Field(Stagger.NONE, description="When the events of a batch may start")
    late: Annotated[Late, Choice()] = Field(
        Late.DELIVER, description="How an event is treated that is not delivered when its window closes"
    )
    overlap: Annotated[Overlap, Choice()] = Field(
        Overlap.ALLOW, description="How a trigger acts while an earlier batch is unfinished"
    )
    catch_up_for: Annotated[int, Field(ge=0, le=LONGEST_CATCH_UP), DURATION] | None = Field(
        None,
        description=(
            "After downtime, triggers missed within this time are caught up: none if 0, only the last one if empty"
        ),
    )
    kind: Word = Field("", description="Kind of the records that it emits. That of its endpoint if empty")
    endpoint: Reference | None = Field(None, description="Where its events are delivered")
    payload_template: Json = Field(
        default_factory=dict,
        description='The JSON that is delivered, such as {"shard": "$number", "of": "$count"}. In texts, '
        "$schedule, $trigger_at, $event_id, $number, $count, $run_after and $zone are replaced",
    )
    throttle: Reference | None = Field(None, description="Throttle that its records share. No limit if empty")
    retry_policy: Reference | None = Field(None, description="How its records are retried. Fibonacci, 60 s, if empty")
    priority: Priority = Field(0, description="Priority of its records: higher runs first")

    @checks("provider")
    @classmethod
    def _is_no_policy(cls, provider: str) -> str:
        if provider == OF_POLICIES:
            raise ValueError(f"{OF_POLICIES} are those of a policy, which has a separate schedule: make a policy")
        return provider

    @checks("event_count", "catch_up_for")
    @classmethod
    def _suits_the_provider(cls, value: Any, info: ValidationInfo) -> Any:
        provider, counts = info.data.get("provider"), info.field_name == "event_count"
        if provider and counts and value == 1:
            return None
        if provider and value is not None:
            why = (
                f"its batch comes from {provider}"
                if counts
                else f"after downtime {provider} catches up with due records"
            )
            raise ValueError(f"is not for this schedule: {why}; leave it empty")
        if provider == "" and counts and value is None:
            raise ValueError("is missing: how many events does a trigger yield? 1 is plain cron")
        return value

    @checks("stagger", "late")
    @classmethod
    def _has_its_window(cls, value: str, info: ValidationInfo) -> str:
        if info.data.get("window_for") == 0 and value == Stagger.EVEN:
            raise ValueError("needs a window to spread the events over; give its length in window_for, or choose none")
        if info.data.get("window_for") == 0 and value == Late.DROP:
            raise ValueError("needs a window after which an event is late; give its length in window_for")
        return value

    @checks("payload_template")
    @classmethod
    def _renders(cls, template: Any, info: ValidationInfo) -> Any:
        if template is None:
            raise ValueError("must not be null; {} is an empty payload")
        if not info.data.get("provider"):
            templates.check(template)
        return template
