"""Rules for the values of a policy, as far as no table is needed for them."""

from collections.abc import Callable
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, Field

from declarations.parts import Part, Parts, Rows, Takes
from declarations.types import (
    PRINTABLE,
    STORABLE,
    STRICT,
    Choice,
    JsonObject,
    ManySeconds,
    Positive,
    Priority,
    Reference,
    Seconds,
    SomeSeconds,
    Title,
)
from schedules.declarations import Cron, Zone
from sealing.lookup import check_reference
from sources.declarations import validation
from sources.declarations.hook_file import hook_name
from sources.domain.excluded_dates import ExcludedDates
from sources.domain.retention import Keep, usual
from sources.domain.windows import Window
from sources.models import AtClose, DrillFrom

MOST_ROWS = 200
"""Ranges of a window, and excluded dates."""


def _checked(check: Callable[[Any], object], *, may_be_empty: bool = False) -> AfterValidator:
    """A validator made from `check`, which raises a ValueError that names the problem with the value."""

    def checked(value: Any) -> Any:
        if value or not may_be_empty:
            check(value)
        return value

    return AfterValidator(checked)


RANGES = _checked(lambda rows: Window.parse(rows, "UTC"))
BANDWIDTH = _checked(lambda limit: validation.check_engine_options({"bwlimit": limit}), may_be_empty=True)
REFERENCE = _checked(lambda reference: check_reference(reference, "URL"), may_be_empty=True)


DAYS = ("mon-sun", "mon-fri", "sat-sun", "mon", "tue", "wed", "thu", "fri", "sat", "sun")
RANGE = (
    Part("days", example="mon-sun", suggested=DAYS),
    Part("start", title="from", example="22:00"),
    Part("end", title="to", example="06:00"),
)
WINDOW = Rows("range", RANGE, "When its backups may start, in its zone; a range may cross midnight. Always if empty")
COPY_WINDOW = Rows(
    "range", RANGE,
    "When copies may run; one that runs is stopped at its close, and continues in the next opening. Always if empty",
)  # fmt: skip
EXCLUDED = Rows(
    "date",
    (
        Part("date", title="date or dates", example="12-25"),
        Part("holidays", title="holidays of", example="DE"),
        Part("subdivision", title="in its part", example="BY"),
    ),
    "Local dates on which no range of its window begins: 2026-12-24, 12-25 (each year), or 2026-12-27..2026-12-31; or "
    "the public holidays of a country, by its code. None if empty",
    alone="date",
)
KEEP = Parts(
    (
        *(Part(name, takes=Takes.WHOLE) for name in ("last", "hourly", "daily", "weekly", "monthly", "yearly")),
        Part("within", example="30d"),
    ),
    "Which points to keep: the last ones, the newest of each hour, day, week, month and year, and all within that time "
    "of the newest. All, for ever, if empty",
)
ENGINE_OPTIONS = Parts(
    (
        Part("bwlimit", title="bandwidth", example="10M", means="Bytes a second, or a timetable, such as 08:00,512K "
             "19:00,off. No limit if empty"),
        Part("transfers", takes=Takes.WHOLE, means="Files at once. 4 if empty"),
        Part("checkers", takes=Takes.WHOLE, means="Folders that are listed at once. 8 if empty"),
        Part("ignore_ctime", takes=Takes.YES_OR_NO, means="Whether a local file with the same size and time counts as "
             "unchanged, whatever its ctime. No if empty"),
        Part("exclude", title="left out", takes=Takes.LINES, example="*.tmp", means="Files and folders, one pattern "
             "per line, such as /cache/** or *.tmp. Everything is backed up if empty"),
    ),
    "How the engine works",
)  # fmt: skip
"""The parts that forms have in place of JSON."""


class PolicyDeclaration(BaseModel):
    """A policy: how often its sources are backed up, in which window, to where, and how. Durations are seconds, or text
    such as `15m`.

    It is also checked that its window opens at some time.
    """

    model_config = STRICT

    name: Title
    enabled: bool = Field(True, description="None of its backups begin while it is disabled")
    repository: Reference = Field(description="Where its backups go")
    priority: Priority = Field(0, description="Higher is backed up first")
    cron: Cron = Field(description="When a period begins: five fields, such as `0 9 * * 1-5`")
    zone: Zone = Field("UTC", description="IANA time zone, such as Europe/Berlin")
    window: Annotated[list[JsonObject], Field(max_length=MOST_ROWS), RANGES, WINDOW] = Field(
        default_factory=list,
        description="When its backups may start, in its zone, such as "
        '[{"days": "mon-fri", "start": "22:00", "end": "06:00"}]. Always if empty',
    )
    excluded_dates: Annotated[
        list[Annotated[str, Field(max_length=40), PRINTABLE] | JsonObject],
        Field(max_length=MOST_ROWS),
        _checked(ExcludedDates.parse),
        EXCLUDED,
    ] = Field(
        default_factory=list,
        description='Local dates on which no range of its window begins, such as ["2026-12-24", "12-25", '
        '"2026-12-27..2026-12-31"]; a date without a year is excluded every year. For public '
        'holidays the country, such as [{"holidays": "DE"}], or '
        '[{"holidays": "DE", "subdivision": "BY"}]',
    )
    at_close: Annotated[AtClose, Choice()] = Field(
        AtClose.FINISH, description="How a running backup is treated when the window closes"
    )
    only_if_it_fits: bool = Field(
        False,
        description="Start a backup only if, by its last duration, it would end before the window closes. One "
        "that was left out of three openings in a row is started in the next one anyway",
    )
    engine_options: Annotated[JsonObject, _checked(validation.check_engine_options), ENGINE_OPTIONS] = Field(
        default_factory=dict, description='Options of the engine, such as {"transfers": 4, "bwlimit": "10M"}'
    )
    hook: Annotated[str, Field(max_length=100), AfterValidator(hook_name)] = Field(
        "",
        description="Name of the commands that its workers run before and after each backup, and when one has failed. "
        "They are in a file that belongs to root on those hosts (docs/hooks.md). None if empty",
    )
    keep: Annotated[JsonObject, _checked(Keep.parse), KEEP] = Field(
        default_factory=usual,
        description="Which points in time to keep, such as "
        '{"last": 7, "hourly": 24, "daily": 14, "weekly": 8, "monthly": 12, "yearly": 3, "within": "30d"}: '
        "the last ones, the newest of each hour, day, …, and all within that time of the newest. "
        "All, for ever, if {}",
    )
    copy_to: Reference | None = Field(
        None,
        description="A second repository, preferably in another place, to which each point is copied whole, "
        "encrypted with that repository's key if it has one. No copies if empty",
    )
    copy_within: ManySeconds = Field(86_400, description="Time after a backup from which its copy is overdue")
    copy_window: Annotated[list[JsonObject], Field(max_length=MOST_ROWS), RANGES, COPY_WINDOW] = Field(
        default_factory=list,
        description="When copies may run, in the form of `window`; one that runs is stopped at its close, and "
        "continues in the next opening. Always if empty",
    )
    copy_bandwidth: Annotated[str, Field(max_length=500), STORABLE, BANDWIDTH] = Field(
        "",
        description=(
            'Limit for copies, such as "10M" bytes a second, or "08:00,512K 19:00,off" in its zone. No limit if empty'
        ),
    )
    check_within: ManySeconds | None = Field(
        28 * 86_400,
        description="Time in which everything in the repository is read and compared with what was written, "
        "some of it each day. Never if empty",
    )
    drill_every: ManySeconds | None = Field(
        30 * 86_400,
        description="Time after which the newest point is restored into scratch space, or a sample of it if it "
        "is large, and compared; a database into a scratch server. Never if empty",
    )
    drill_from: Annotated[DrillFrom, Choice()] = Field(
        DrillFrom.REPOSITORY, description="Which repository drills restore from"
    )
    max_running_for: ManySeconds = Field(86_400, description="Time after which a running backup is stopped")
    least_rate: Positive | None = Field(
        None,
        description="Bytes a second. A backup that fetches fewer over five minutes is ended as a failure of "
        "its source. Many small files are slow by nature. No limit if empty",
    )
    retry_policy: Reference | None = Field(
        None, description="How failed backups are retried. Fibonacci, 60 s, if empty"
    )
    throttle: Reference | None = Field(None, description="Throttle that its backups share. No limit if empty")
    seeding_limit: Positive | None = Field(
        None, description="Execution units that first backups may take at most. No limit if empty"
    )
    connect_timeout: SomeSeconds = Field(60, description="Time to wait for a source to answer")
    recheck_after: ManySeconds = Field(900, description="Time until a silent source is asked again")
    vanish_grace: Seconds = Field(120, description="Time to wait for a source that stopped answering in mid-backup")
    address_follows: bool = Field(
        False,
        description="Take over the address from which an SFTP source checks in, if its pinned host key answers there",
    )
    on_battery: bool = Field(True, description="Back up sources that report to run on battery")
    on_metered: bool = Field(True, description="Back up sources that report a metered connection")
    wake_allowed: bool = Field(False, description="Send a magic packet to a silent source")
    wake_every: Seconds = Field(14_400, description="At most one magic packet in this time")
    wake_wait: SomeSeconds = Field(180, description="Time from a magic packet to the re-check")
    alert_after: ManySeconds | None = Field(
        None, description="Time without a backup after which an assignment is overdue. One missed period if empty"
    )
    outcomes_endpoint: Reference | None = Field(
        None, description="Endpoint to which the outcome of each backup is delivered as an event. None if empty"
    )
    ping_url: Annotated[str, Field(max_length=500), STORABLE, REFERENCE] = Field(
        "",
        description="Where the URL of a dead-man ping is found, which is requested after each success, and "
        "with /fail after each failure: stored:NAME, env:NAME or file:/path. No ping if empty",
    )
