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
    """A validator by `check`, which raises a ValueError that names what is wrong with the value."""

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
WINDOW = Rows("range", RANGE, "When it may run, in its zone; a range may cross midnight. Empty: always")
COPY_WINDOW = Rows(
    "range", RANGE,
    "When copies may run; one that runs is stopped at its close, and continues in the next opening. Empty: always",
)  # fmt: skip
EXCLUDED = Rows(
    "date",
    (
        Part("date", title="date or dates", example="12-25"),
        Part("holidays", title="holidays of", example="DE"),
        Part("subdivision", title="in its part", example="BY"),
    ),
    "Local dates on which no range of its window begins: 2026-12-24, 12-25 (each year), or 2026-12-27..2026-12-31; or "
    "the public holidays of a country, by its code. Empty: none",
    alone="date",
)
KEEP = Parts(
    (
        *(Part(name, takes=Takes.WHOLE) for name in ("last", "hourly", "daily", "weekly", "monthly", "yearly")),
        Part("within", example="30d"),
    ),
    "Which points to keep: the last ones, the newest of each hour, day, week, month and year, and all within that time "
    "of the newest. Empty: all, for ever",
)
ENGINE_OPTIONS = Parts(
    (
        Part("bwlimit", title="bandwidth", example="10M", means="Bytes a second, or a timetable, such as 08:00,512K "
             "19:00,off. Empty: no limit"),
        Part("transfers", takes=Takes.WHOLE, means="Files at once. Empty: 4"),
        Part("checkers", takes=Takes.WHOLE, means="Folders that are listed at once. Empty: 8"),
        Part("ignore_ctime", takes=Takes.YES_OR_NO, means="Whether a local file with the same size and time counts as "
             "unchanged, whatever its ctime. Empty: no"),
        Part("exclude", title="left out", takes=Takes.LINES, example="*.tmp", means="Files and folders, a pattern a "
             "line, such as /cache/** or *.tmp. Empty: all is backed up"),
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
    enabled: bool = Field(True, description="No backups of it begin while it is not")
    repository: Reference = Field(description="Where its backups go")
    priority: Priority = Field(0, description="Higher is backed up first")
    cron: Cron = Field(description="When a period begins: five fields, as `0 9 * * 1-5`")
    zone: Zone = Field("UTC", description="IANA time zone, as Europe/Berlin")
    window: Annotated[list[JsonObject], Field(max_length=MOST_ROWS), RANGES, WINDOW] = Field(
        default_factory=list,
        description='When it may run, in its zone, as [{"days": "mon-fri", "start": "22:00", "end": "06:00"}]. '
        "Empty: always",
    )
    excluded_dates: Annotated[
        list[Annotated[str, Field(max_length=40), PRINTABLE] | JsonObject],
        Field(max_length=MOST_ROWS),
        _checked(ExcludedDates.parse),
        EXCLUDED,
    ] = Field(
        default_factory=list,
        description='Local dates on which no range of its window begins, as ["2026-12-24", "12-25", '
        '"2026-12-27..2026-12-31"]; a date without a year is that of every year. Of public holidays the country, as '
        '[{"holidays": "DE"}], or [{"holidays": "DE", "subdivision": "BY"}]',
    )
    at_close: Annotated[AtClose, Choice()] = Field(
        AtClose.FINISH, description="What becomes of a running backup when the window closes"
    )
    only_if_it_fits: bool = Field(
        False,
        description="Start only what its last duration lets end before the window closes. What was left out in three "
        "openings running is started in the next one all the same",
    )
    engine_options: Annotated[JsonObject, _checked(validation.check_engine_options), ENGINE_OPTIONS] = Field(
        default_factory=dict, description='Of the engine, as {"transfers": 4, "bwlimit": "10M"}'
    )
    hook: Annotated[str, Field(max_length=100), AfterValidator(hook_name)] = Field(
        "",
        description="Name of the commands that its workers run before and after each backup, and when one has failed. "
        "They are in a file of root on those hosts (docs/hooks.md). Empty: none",
    )
    keep: Annotated[JsonObject, _checked(Keep.parse), KEEP] = Field(
        default_factory=usual,
        description='Which points in time to keep, as {"last": 7, "hourly": 24, "daily": 14, "weekly": 8, '
        '"monthly": 12, "yearly": 3, "within": "30d"}: the last ones, the newest of each hour, day, …, and all within '
        "that time of the newest. {}: all, for ever",
    )
    copy_to: Reference | None = Field(
        None,
        description="A second repository, to which each point is copied, best one in another place: whole, "
        "and encrypted with a separate key if it is. None: no copies",
    )
    copy_within: ManySeconds = Field(86_400, description="After a backup, after which its copy is overdue")
    copy_window: Annotated[list[JsonObject], Field(max_length=MOST_ROWS), RANGES, COPY_WINDOW] = Field(
        default_factory=list,
        description="When copies may run, as `window`; one that runs is stopped at its close, and continues in the "
        "next opening. Empty: always",
    )
    copy_bandwidth: Annotated[str, Field(max_length=500), STORABLE, BANDWIDTH] = Field(
        "", description='Of copies, as "10M" bytes a second, or "08:00,512K 19:00,off" in its zone. Empty: no limit'
    )
    check_within: ManySeconds | None = Field(
        28 * 86_400,
        description="In which everything in the repository is read and compared with what was written, some of it "
        "each day. None: never",
    )
    drill_every: ManySeconds | None = Field(
        30 * 86_400,
        description="After which its newest point is restored again into scratch space, a sample of it where it is "
        "large, and compared; a database into a scratch server. None: never",
    )
    drill_from: Annotated[DrillFrom, Choice()] = Field(
        DrillFrom.REPOSITORY, description="Which repository drills restore from"
    )
    max_running_for: ManySeconds = Field(86_400, description="After which a backup that still runs is stopped")
    least_rate: Positive | None = Field(
        None,
        description="Bytes a second. A backup that fetches fewer over five minutes is ended, which is a failure of its "
        "source. Many small files are slow by nature. None: no limit",
    )
    retry_policy: Reference | None = Field(None, description="None: Fibonacci, 60 s")
    throttle: Reference | None = Field(None, description="That its backups share. None: no limit")
    seeding_limit: Positive | None = Field(
        None, description="At most so many execution units for first backups. None: no limit"
    )
    connect_timeout: SomeSeconds = Field(60, description="To wait for a source to answer")
    recheck_after: ManySeconds = Field(900, description="Until a silent source is asked again")
    vanish_grace: Seconds = Field(
        120, description="For which a source that stopped answering in mid-backup is waited for"
    )
    address_follows: bool = Field(
        False,
        description="Take over the address from which an SFTP source checks in, if its pinned host key answers there",
    )
    on_battery: bool = Field(True, description="Back up sources that say they run on battery")
    on_metered: bool = Field(True, description="Back up sources that say their connection is metered")
    wake_allowed: bool = Field(False, description="Send a magic packet to a silent source")
    wake_every: Seconds = Field(14_400, description="At most one magic packet in this time")
    wake_wait: SomeSeconds = Field(180, description="From a magic packet to the re-check")
    alert_after: ManySeconds | None = Field(
        None, description="Without a backup, after which an assignment is overdue. None: a whole period was missed"
    )
    outcomes_endpoint: Reference | None = Field(
        None, description="To which the outcome of each backup is delivered, as an event. None: to none"
    )
    ping_url: Annotated[str, Field(max_length=500), STORABLE, REFERENCE] = Field(
        "",
        description="Where the URL of a dead-man ping is found, which is asked for after each success, and with /fail "
        "after each failure: stored:NAME, env:NAME or file:/path. Empty: none is asked for",
    )
