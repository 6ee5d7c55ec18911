"""The arguments of `manage.py schedules`, and what they say of a schedule."""

import json
import sys
import textwrap
from argparse import SUPPRESS, ArgumentParser, ArgumentTypeError, _SubParsersAction
from pathlib import Path
from typing import Any

from delivery.models import Endpoint
from jobs.management.arguments import duration
from jobs.models import RetryPolicy, Throttle
from operations.backlog.arguments import HELP_WIDTH, Examples
from schedules.cron import fields_of, from_fields
from schedules.models import Late, Overlap, Stagger

LAST_ONLY = "last"
LONGEST_PAYLOAD = 1_000_000
CRON_FIELDS = ("minute", "hour", "day_of_month", "month", "day_of_week")

OPTIONS = {
    "name": "--name", "cron": "--cron", "zone": "--zone", "kind": "--kind", "provider": "--provider",
    "event_count": "--count", "endpoint": "--endpoint", "payload_template": "--payload", "window_for": "--window",
    "stagger": "--stagger", "late": "--late", "overlap": "--overlap", "catch_up_for": "--catch-up",
    "throttle": "--throttle", "retry_policy": "--retry-policy", "priority": "--priority",
}  # fmt: skip
"""The option for each field of a schedule."""

NAMED: dict[str, Any] = {"endpoint": Endpoint, "throttle": Throttle, "retry_policy": RetryPolicy}


def add_arguments(parser: ArgumentParser) -> None:
    """Add the verbs. Without one the command lists the schedules."""
    parser.formatter_class = Examples
    parser.description = textwrap.fill(parser.description or "", HELP_WIDTH)
    parser.epilog = _examples(
        "schedules", "schedules add nightly --cron '0 3 * * *' --endpoint hooks --count 1000 --window 3600 "
        "--stagger even", "schedules plan nightly", "schedules trigger nightly", "schedules remove nightly --yes",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print JSON")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", title="verbs")
    _verb(verbs, "list", "list the schedules", "", "schedules list")
    _verb_of_one(verbs, "show", "show one schedule and its next triggers", "", "schedules show nightly")
    adds = _verb_of_one(
        verbs, "add", "add a schedule", "Its capacity is checked: whether each batch completes in its window.",
        "schedules add nightly --cron '0 3 * * *' --zone Europe/Berlin --endpoint hooks --count 1000 --window 3600 "
        "--stagger even --payload '{\"shard\": \"$number\"}'",
        "schedules add thrice --hour 3,6,9 --endpoint hooks", "schedules add big --cron '0 3 * * *' --endpoint hooks "
        "--payload @payload.json",
    )  # fmt: skip
    sets = _verb_of_one(
        verbs, "set", "change a schedule", "What is not named stays. Events on the backlog keep what they have.",
        "schedules set nightly --window 7200 --throttle slow", 'schedules set nightly --throttle ""',
    )  # fmt: skip
    sets.add_argument("--name", dest="new_name", default=SUPPRESS, metavar="NAME", help="another name")
    for changes in (adds, sets):
        _add_fields(changes)
    _verb_of_one(verbs, "trigger", "put a batch on the backlog now", "", "schedules trigger nightly")
    _verb_of_one(
        verbs,
        "pause",
        "trigger nothing until it is resumed",
        "What is on the backlog goes on.",
        "schedules pause nightly",
    )
    _verb_of_one(
        verbs,
        "resume",
        "trigger again",
        "What came while it was paused is not made up for.",
        "schedules resume nightly",
    )
    cancels = _verb_of_one(
        verbs,
        "cancel",
        "cancel its batches under way",
        "What runs is told to stop. It goes on triggering: pause it to end that.",
        "schedules cancel nightly --yes",
    )
    cancels.add_argument("--yes", action="store_true", help="do it without asking")
    removes = _verb_of_one(
        verbs,
        "remove",
        "delete a schedule",
        "Refused while events of it are unfinished.",
        "schedules remove nightly --yes",
    )
    removes.add_argument("--yes", action="store_true", help="do it without asking")
    triggers = _verb_of_one(
        verbs, "triggers", "list what it has triggered", "The latest first.", "schedules triggers nightly --limit 50"
    )
    triggers.add_argument("--limit", type=_number, default=20, metavar="N", help="no more than so many (20)")
    _verb_of_one(
        verbs, "plan", "show the load of its next seven days",
        "With what shares its throttle, and whether each batch completes in its window.", "schedules plan nightly",
    )  # fmt: skip


def _add_fields(parser: ArgumentParser) -> None:
    """Options without defaults: what is not named is not touched."""

    def option(name: str, **kwargs: Any) -> None:
        parser.add_argument(name, default=SUPPRESS, **kwargs)

    option("--cron", metavar="CRON", help="minute, hour, day of month, month, day of week, as '0 9 * * 1-5'")
    for field in CRON_FIELDS:
        option(_option_of(field), metavar="FIELD", help="this field of the cron, as 3,6,9")
    option("--zone", metavar="ZONE", help="IANA time zone, as Europe/Berlin (UTC)")
    option("--count", dest="event_count", type=_count, metavar="N", help="events a trigger (1)")
    option(
        "--window",
        dest="window_for",
        type=_seconds,
        metavar="DURATION",
        help="within which a batch should be done, as 1h",
    )
    option("--stagger", choices=Stagger.values, help="when the events of a batch may start (none)")
    option("--late", choices=Late.values, help="what becomes of an event after its window (deliver)")
    option("--overlap", choices=Overlap.values, help="while an earlier batch is unfinished (allow)")
    option("--catch-up", dest="catch_up_for", type=_catch_up, metavar="DURATION",
           help="make up for triggers missed so long ago; 0: none; last: only the last one (last)")  # fmt: skip
    option("--endpoint", metavar="NAME", help='where events are delivered; "" for none')
    option("--kind", metavar="KIND", help="of its records (that of its endpoint)")
    option("--provider", metavar="NAME", help="what yields its batches in place of --count")
    option("--payload", dest="payload_template", type=_payload, metavar="JSON",
           help="what is delivered; @FILE reads a file, @- standard input")  # fmt: skip
    option("--throttle", metavar="NAME", help='that its events share; "" for none')
    option(
        "--retry-policy", dest="retry_policy", metavar="NAME", help='by which they are tried again; "" for the default'
    )
    option("--priority", type=_integer, metavar="N", help="of its records: higher runs first (0)")


def _verb(verbs: "_SubParsersAction[Any]", name: str, what: str, more: str, *examples: str) -> ArgumentParser:
    made: ArgumentParser = verbs.add_parser(
        name,
        help=what,
        description=textwrap.fill(f"{what[0].upper()}{what[1:]}. {more}", HELP_WIDTH),
        epilog=_examples(*examples),
        formatter_class=Examples,
    )
    # without a default of its own, which would undo a `--json` before the verb
    made.add_argument("--json", action="store_true", default=SUPPRESS, help="print JSON")
    return made


def _verb_of_one(verbs: "_SubParsersAction[Any]", name: str, what: str, more: str, *examples: str) -> ArgumentParser:
    made = _verb(verbs, name, what, more, *examples)
    made.add_argument("name", metavar="NAME", help="of the schedule")
    return made


def _examples(*commands: str) -> str:
    return "\n".join(["examples:", *(f"  manage.py {command}" for command in commands)])


def named(field: str, name: str) -> Any:
    """The row that an option names; None for an empty name. Raises: ValueError naming those there are."""
    if not name:
        return None
    model = NAMED[field]
    found = model.objects.filter(name=name).first() if "\0" not in name else None
    if found is None:
        known = list(model.objects.order_by("name").values_list("name", flat=True)[:20])
        words = field.replace("_", " ")
        raise ValueError(
            f"{OPTIONS[field]}: there is no {words} {name!r}; "
            + (f"there are {', '.join(known)}" if known else "there is none yet")
        )
    return found


def cron_of(fields: dict[str, str], present: str = "") -> str:
    """The expression of the named fields; those that are not named stay as in `present`.

    Raises: ValueError naming the options.
    """
    for field, said in fields.items():
        try:
            from_fields(**{field: said})
        except ValueError as error:
            raise ValueError(f"{_option_of(field)}: {error}") from None
    try:
        stays = fields_of(present) if present else {}
    except ValueError as error:
        raise ValueError(f"{error}; say all of it, as --cron '0 3 * * *'") from None
    try:
        return from_fields(**(stays | fields))
    except ValueError as error:
        raise ValueError(f"{', '.join(map(_option_of, fields))}: {error}") from None


def _option_of(field: str) -> str:
    return f"--{field.replace('_', '-')}"


def _count(said: str) -> int:
    found = _integer(said)
    if found < 1:
        raise ArgumentTypeError(f"{said!r}: at least 1; to stop it, pause it")
    return found


def _number(said: str) -> int:
    found = _integer(said)
    if found < 0:
        raise ArgumentTypeError(f"{said!r} is below 0")
    return found


def _integer(said: str) -> int:
    try:
        found = int(said)
    except ValueError:
        raise ArgumentTypeError(f"{said!r} is not a whole number") from None
    if abs(found) > 2**31 - 1:
        raise ArgumentTypeError(f"{said!r} is too large")
    return found


def _seconds(said: str) -> int:
    found = duration(most=2**31 - 1)(said)
    if found != int(found):
        raise ArgumentTypeError(f"{said!r} is not a whole number of seconds")
    return int(found)


def _catch_up(said: str) -> int | None:
    return None if said == LAST_ONLY else _seconds(said)


def _payload(said: str) -> Any:
    text = said
    if said.startswith("@"):
        try:
            text = sys.stdin.read(LONGEST_PAYLOAD) if said == "@-" else Path(said[1:]).read_text()[:LONGEST_PAYLOAD]
        except OSError as error:
            raise ArgumentTypeError(f"{said[1:]!r} cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise ArgumentTypeError(f"{said[1:]!r} cannot be read: it is no text in UTF-8") from None
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ArgumentTypeError(f'no JSON: {error}; as \'{{"shard": "$number"}}\', or @FILE') from None
