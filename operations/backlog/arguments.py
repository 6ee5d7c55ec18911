"""The arguments of `manage.py backlog`, with the help of each verb."""

import re
from argparse import SUPPRESS, ArgumentParser, ArgumentTypeError, _SubParsersAction
from collections.abc import Callable
from datetime import datetime
from typing import Any

from declarations.surfaces import pausing
from declarations.surfaces.commands.nouns import Examples
from declarations.unknown import article, names_of, no_such, similar
from delivery.models import Endpoint, EndpointKind
from external import durations
from external.durations import duration
from jobs.clock import database_clock
from jobs.conf import PROGRAM
from operations.backlog.selection import ANSWERS, STATUSES
from schedules.models import Schedule

LARGEST_ID = 2**63 - 1


def add_summary(parser: ArgumentParser) -> None:
    """Add the options of the summary, which the command shows without a verb."""
    parser.epilog = _examples(
        "backlog", "backlog --watch 5", "backlog list --status failed", "backlog retry --kind backup --status failed",
        "backlog errors", "backlog cancel 4711", 'backlog pause backups --reason "the store is full"',
        "backlog resume backups",
    )  # fmt: skip
    parser.add_argument(
        "--watch", nargs="?", type=duration(0.1, 86_400), const=2.0, metavar="EVERY",
        help="seconds or a duration such as 1m after which it is shown again, until Ctrl-C (2)",
    )  # fmt: skip


def add_verbs(verbs: "_SubParsersAction[Any]") -> None:
    """Add the verbs that show or change records."""
    lists = _verb(
        verbs, "list", "list records",
        "The latest first (ended records by when they ended), or in the order in which records are claimed.",
        "backlog list --status failed --error refused", "backlog list --order claim --queue backups --limit 50",
        "backlog list --schedule nightly --answer 5xx", "backlog list --events --status succeeded --since 2h",
    )  # fmt: skip
    lists.add_argument("--order", choices=("latest", "claim"), default="latest", help="claim: the ready ones only")
    lists.add_argument("--limit", type=number("number", 10_000), default=20, metavar="N", help="at most this many (20)")
    shows = _verb(
        verbs, "show", "show one record with its attempts", "", "backlog show 4711", "backlog show 7-20260302T120000Z-3"
    )
    of_one = "of a record, or of an event as its receiver knows it; several may be given"
    shows.add_argument("ids", nargs="+", metavar="ID", help=of_one)
    errors = _verb(
        verbs, "errors", "list failed records by their error",
        "Dead letters: failed records, grouped by their error without numbers, ids, addresses and paths, the "
        "largest group first.",
        "backlog errors --kind backup", "backlog retry --like 4f1c08ab92de --yes",
    )  # fmt: skip
    which = errors.add_argument_group("which records")
    for name in ("kind", "queue"):
        which.add_argument(f"--{name}", **WHICH[name])
    errors.add_argument(
        "--limit", type=number("number", 10_000), default=20, metavar="N", help="at most this many (20)"
    )
    cancels = _verb(
        verbs, "cancel", "take records off the backlog",
        "Waiting and ready records end at once. Running ones are asked to stop, and end as cancelled unless they "
        "succeed first. Without --status: all that have not ended.",
        "backlog cancel 4711 4712", "backlog cancel --kind backup --status waiting --dry-run",
    )  # fmt: skip
    retries = _verb(
        verbs, "retry", "retry records now",
        "Waiting records become ready at once, whatever they wait for. Failed and cancelled ones start again "
        "from the first attempt, unless another record of their subject is on the backlog. Without --status: "
        "failed ones.",
        "backlog retry 4711", 'backlog retry --status failed --error "no space left" --yes',
        "backlog retry --queue availability --status waiting", "backlog retry --like 4f1c08ab92de",
    )  # fmt: skip
    for changes in (cancels, retries):
        changes.add_argument(
            "ids", nargs="*", type=number("id of a record", LARGEST_ID), metavar="ID", help="as `list` shows"
        )
        changes.add_argument("--all", action="store_true", help="all records, without a filter")
        changes.add_argument("--yes", action="store_true", help="do it without asking")
        changes.add_argument("--dry-run", action="store_true", help="list the records, change nothing")
    for choosing in (lists, cancels, retries):
        which = choosing.add_argument_group("which records")
        for name, options in WHICH.items():
            which.add_argument(f"--{name}", **options)
    pauses = _verb(
        verbs, "pause", "let nothing be claimed from a queue", "Running records continue.",
        'backlog pause backups --reason "the store is full"',
    )  # fmt: skip
    resumes = _verb(verbs, "resume", "resume a paused queue", "", "backlog resume backups")
    for changes in (pauses, resumes):
        changes.add_argument("queues", nargs="+", metavar="QUEUE", help="names of queues")
    pausing.add_options(pauses)


def _verb(verbs: "_SubParsersAction[Any]", name: str, what: str, more: str, *examples: str) -> ArgumentParser:
    made: ArgumentParser = verbs.add_parser(
        name,
        help=what,
        description=f"{what[0].upper()}{what[1:]}. {more}",
        epilog=_examples(*examples),
        formatter_class=Examples,
    )
    # without a default value, which would undo a `--json` before the verb
    made.add_argument("--json", action="store_true", default=SUPPRESS, help="print JSON")
    return made


def _examples(*commands: str) -> str:
    return "\n".join(["examples:", *(f"  {PROGRAM} {command}" for command in commands)])


def number(what: str, most: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) < 20 and 0 < int(text) <= most):
            raise ArgumentTypeError(f"{text!r} is not {article(what)}: from 1 to {most:,}")
        return int(text)

    return read


def _group(text: str) -> str:
    if not re.fullmatch("[0-9a-f]{12}", text):
        raise ArgumentTypeError(f"{text!r} is not a group: 12 digits and letters, as `{PROGRAM} backlog errors` shows")
    return text


def _since(text: str) -> datetime:
    try:
        return durations.instant(text, database_clock())
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None


WHICH: dict[str, dict[str, Any]] = {
    "kind": {"metavar": "KIND", "help": "of this kind, such as backup"},
    "queue": {"metavar": "QUEUE", "help": "in this queue"},
    "status": {
        "choices": STATUSES, "action": "append", "metavar": "STATUS",
        "help": f"in this status; may be given again: {', '.join(STATUSES)}",
    },
    "subject": {"metavar": "SUBJECT", "help": "of this subject, such as assignment:7, or the id of an event"},
    "error": {
        "metavar": "TEXT",
        "help": "whose last error contains this, among the latest 100,000 and all that have not succeeded",
    },
    "like": {"dest": "group", "type": _group, "metavar": "GROUP", "help": "failed with the same error, see `errors`"},
    "since": {
        "type": _since, "metavar": "WHEN",
        "help": "that ended since then (of a status that ends), else were put on the backlog: 2026-03-02, 90m, 2h, 7d",
    },
    "events": {"action": "store_const", "const": True, "help": "only events, which are delivered to an endpoint"},
    "schedule": {
        "metavar": "NAME",
        "help": "of this schedule, by name or id, or by name if it was deleted; `test` for tests of endpoints",
    },
    "endpoint": {"metavar": "NAME", "help": "that go to this endpoint: its name or id"},
    "answer": {
        "choices": ANSWERS, "metavar": "ANSWER",
        "help": f"the answer to the last attempt at an event: {', '.join(ANSWERS)}",
    },
}  # fmt: skip
"""Option → the function that reads it. If the destination differs from the option's name, it is the name
of the filter.
"""


def find_schedule(named: str) -> dict[str, Any]:
    """The filter by the schedule with that name or id, or else by the name that events of a deleted schedule carry."""
    found = Schedule.objects.filter(name=named).first()
    found = found or (Schedule.objects.filter(pk=int(named)).first() if is_id(named) else None)
    return {"schedule": found.pk} if found else {"schedule_name": named}


def no_schedule(named: str) -> ValueError:
    """The error that a schedule is unknown; it names some schedules that deliver."""
    known = similar(named, names_of(Schedule.objects.filter(kind__in=EndpointKind.values)))
    return ValueError(f"there is no schedule {named!r}, nor an event of a deleted one with that name; {known}")


def find_endpoint(named: str) -> int:
    """The id of the endpoint with that name or id; a deleted endpoint has an id, too. Raises: ValueError
    naming some.
    """
    found = Endpoint.objects.filter(name=named).first()
    if found is None and not is_id(named):
        raise ValueError(no_such("endpoint", named, names_of(Endpoint.objects.all())))
    return found.pk if found else int(named)


def is_id(named: str) -> bool:
    return named.isascii() and named.isdigit() and len(named) < 20 and int(named) <= LARGEST_ID
