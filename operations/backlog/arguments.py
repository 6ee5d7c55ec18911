"""The arguments of `manage.py backlog`, with the help of each verb."""

import re
import textwrap
from argparse import SUPPRESS, ArgumentParser, ArgumentTypeError, RawDescriptionHelpFormatter, _SubParsersAction
from collections.abc import Sequence
from typing import Any

from django.core.management.base import DjangoHelpFormatter

from jobs.management.arguments import duration
from jobs.states import Status

LARGEST_ID = 2**63 - 1
HELP_WIDTH = 80


class Examples(DjangoHelpFormatter, RawDescriptionHelpFormatter):
    """Help that leaves the examples as they are written."""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the verbs. Without one the command shows the summary."""
    parser.formatter_class = Examples
    parser.description = textwrap.fill(parser.description or "", HELP_WIDTH)
    parser.epilog = _examples(
        "backlog", "backlog --watch 5", "backlog list --status failed", "backlog retry --kind backup --status failed",
        "backlog errors", "backlog cancel 4711", 'backlog pause backups --reason "the store is full"',
        "backlog resume backups",
    )  # fmt: skip
    parser.add_argument(
        "--watch",
        nargs="?",
        type=duration(0.1, 86_400),
        const=2.0,
        metavar="EVERY",
        help="show it again as often, as 5 or 1m (2), until Ctrl-C",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", title="verbs")
    _add_list(verbs)
    _add_show(verbs)
    _add_errors(verbs)
    _add_cancel_and_retry(verbs)
    _add_pause_and_resume(verbs)


def _add_list(verbs: "_SubParsersAction[Any]") -> None:
    lists = _verb(
        verbs, "list", "list records", "The latest first, or in the order in which they are claimed.",
        "backlog list --status failed --error refused", "backlog list --order claim --queue backups --limit 50",
    )  # fmt: skip
    _add_filters(lists)
    lists.add_argument("--order", choices=("latest", "claim"), default="latest", help="claim: the ready ones only")
    lists.add_argument("--limit", type=_count, default=20, metavar="N", help="no more than so many (20)")
    _add_json(lists)


def _add_show(verbs: "_SubParsersAction[Any]") -> None:
    shows = _verb(verbs, "show", "show one record with its attempts", "", "backlog show 4711")
    shows.add_argument("id", type=_record_id, metavar="ID", help="of the record")
    _add_json(shows)


def _add_errors(verbs: "_SubParsersAction[Any]") -> None:
    errors = _verb(
        verbs, "errors", "list what failed records say",
        "Dead letters: failed records, grouped by what they say but for numbers, ids, addresses and paths, the largest "
        "group first.",
        "backlog errors --kind backup", "backlog retry --like 4f1c08ab92de --yes",
    )  # fmt: skip
    which = errors.add_argument_group("which records")
    which.add_argument("--kind", metavar="KIND", help="of this kind, as backup")
    which.add_argument("--queue", metavar="QUEUE", help="in this queue")
    errors.add_argument("--limit", type=_count, default=20, metavar="N", help="no more than so many groups (20)")
    _add_json(errors)


def _add_cancel_and_retry(verbs: "_SubParsersAction[Any]") -> None:
    cancels = _verb(
        verbs, "cancel", "take records off the backlog",
        "What waits or is ready ends at once. What runs is told to stop, and ends as cancelled unless it succeeds "
        "first. Without --status: whatever has not ended.",
        "backlog cancel 4711 4712", "backlog cancel --kind backup --status waiting --dry-run",
    )  # fmt: skip
    retries = _verb(
        verbs, "retry", "retry records now",
        "What waits is ready at once, whatever for. What failed or was cancelled starts afresh, unless another "
        "record of its subject is on the backlog. Without --status: what failed.",
        "backlog retry 4711", 'backlog retry --status failed --error "no space left" --yes',
        "backlog retry --queue availability --status waiting", "backlog retry --like 4f1c08ab92de",
    )  # fmt: skip
    for changes in (cancels, retries):
        changes.add_argument("ids", nargs="*", type=_record_id, metavar="ID", help="of a record, as `list` shows")
        _add_filters(changes)
        changes.add_argument("--all", action="store_true", help="all of them, when nothing else is said")
        changes.add_argument("--yes", action="store_true", help="do it without asking")
        changes.add_argument("--dry-run", action="store_true", help="list the records, change nothing")
        _add_json(changes)
    retries.add_argument("--like", type=_group, metavar="GROUP", help="failed, and says the same, as `errors` shows")


def _add_pause_and_resume(verbs: "_SubParsersAction[Any]") -> None:
    pauses = _verb(
        verbs, "pause", "let nothing be claimed from a queue", "What runs goes on.",
        'backlog pause backups --reason "the store is full"',
    )  # fmt: skip
    resumes = _verb(verbs, "resume", "let a paused queue go on", "", "backlog resume backups")
    for changes in (pauses, resumes):
        changes.add_argument("queue", metavar="QUEUE", help="name of the queue")
        _add_json(changes)
    pauses.add_argument("--reason", default="", metavar="TEXT", help="why, for whoever looks next")


def _verb(verbs: "_SubParsersAction[Any]", name: str, what: str, more: str, *examples: str) -> ArgumentParser:
    made: ArgumentParser = verbs.add_parser(
        name,
        help=what,
        description=textwrap.fill(f"{what[0].upper()}{what[1:]}. {more}", HELP_WIDTH),
        epilog=_examples(*examples),
        formatter_class=Examples,
    )
    return made


def _examples(*commands: str) -> str:
    return "\n".join(["examples:", *(f"  manage.py {command}" for command in commands)])


def _add_json(parser: ArgumentParser) -> None:
    """Of a verb: without a default of its own, which would undo a `--json` before the verb."""
    parser.add_argument("--json", action="store_true", default=SUPPRESS, help="print JSON")


def _add_filters(parser: ArgumentParser) -> None:
    which = parser.add_argument_group("which records")
    labels = [status.label for status in Status]
    which.add_argument("--kind", metavar="KIND", help="of this kind, as backup")
    which.add_argument("--queue", metavar="QUEUE", help="in this queue")
    which.add_argument(
        "--status",
        action="append",
        type=_status,
        default=[],
        metavar="STATUS",
        dest="statuses",
        help=f"in this status; may be given again: {', '.join(labels)}",
    )
    which.add_argument("--subject", metavar="SUBJECT", help="of this subject, as assignment:7")
    which.add_argument("--error", metavar="TEXT", help="whose last error contains this")


def _status(said: str) -> Status:
    labels: Sequence[str] = [status.label for status in Status]
    if said not in labels:
        raise ArgumentTypeError(f"no status {said!r}; there are {', '.join(labels)}")
    return Status(list(Status)[labels.index(said)])


def _record_id(said: str) -> int:
    if not (said.isascii() and said.isdigit() and 0 < int(said) <= LARGEST_ID):
        raise ArgumentTypeError(f"{said!r} is no id of a record: a number, as `manage.py backlog list` shows")
    return int(said)


def _group(said: str) -> str:
    if not re.fullmatch("[0-9a-f]{12}", said):
        raise ArgumentTypeError(f"{said!r} is no group: 12 digits and letters, as `manage.py backlog errors` shows")
    return said


def _count(said: str) -> int:
    if not (said.isascii() and said.isdigit() and 0 < int(said) <= 1_000_000):
        raise ArgumentTypeError(f"{said!r} is not a number from 1 to 1,000,000")
    return int(said)
