"""The arguments of `manage.py endpoints`, with the help of each verb."""

import json
from argparse import SUPPRESS, ArgumentParser, ArgumentTypeError, BooleanOptionalAction, _SubParsersAction
from typing import Any

from delivery.models import EndpointKind
from delivery.signing import KEEP_FOR
from jobs.durations import span
from jobs.management.arguments import duration

FIELDS = ("url", "headers", "connect_timeout", "timeout", "follow_redirects", "region", "message_group")
"""Of an endpoint, as their options are called."""

LONGEST_KEEP_FOR = 366 * 86_400
TIMEOUT = duration(0, 3600)


def add_arguments(parser: ArgumentParser) -> None:
    """Add the verbs. Without one the command lists."""
    parser.add_argument("--json", action="store_true", help="print JSON")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", title="verbs")
    _verb(verbs, "list", "list all endpoints", named=False)
    _verb(verbs, "show", "show one with its signing secrets, but none of what is secret")
    _add_add_and_set(verbs)
    rotates = _verb(verbs, "rotate", "give one a new signing secret, and print that: it is not shown again")
    rotates.add_argument(
        "--keep-for", type=duration(0, LONGEST_KEEP_FOR), default=KEEP_FOR, metavar="DURATION",
        help=f"the secrets before it sign for so long, as 12h or 7d ({span(KEEP_FOR)}); 0: no more",
    )  # fmt: skip
    tests = _verb(verbs, "test", "let a worker deliver a test event, and tell what came of it")
    tests.add_argument("--wait", type=TIMEOUT, metavar="DURATION", help="for so long (its timeouts, and 10 s)")
    removes = _verb(verbs, "remove", "remove one that no schedule uses")
    removes.add_argument("--yes", action="store_true", help="do it without asking")


def _add_add_and_set(verbs: "_SubParsersAction[Any]") -> None:
    adds = _verb(
        verbs,
        "add",
        "make one, and print its signing secret: it is not shown again",
        "endpoints add hooks https://example.com/hooks/backup",
    )
    adds.add_argument("url", metavar="URL", help="of the receiver, or of the queue")
    kinds = EndpointKind.values
    adds.add_argument("--kind", choices=kinds, default=kinds[0], help=f"how events are delivered to it ({kinds[0]})")
    sets = _verb(verbs, "set", "change one", "endpoints set hooks --timeout 10 --authorization-file -")
    sets.add_argument("--url", metavar="URL", help="its URL")
    sets.add_argument("--rename", metavar="NAME", help="its name")
    for changes in (adds, sets):
        changes.add_argument("--connect-timeout", type=TIMEOUT, metavar="DURATION", help="until a connection stands")
        changes.add_argument("--timeout", type=TIMEOUT, metavar="DURATION", help="until the answer is there, in all")
        of_callbacks = changes.add_argument_group("of HTTP callbacks")
        of_callbacks.add_argument("--headers", type=_json, metavar="JSON", help='sent with each, as {"X-Tenant": "7"}')
        of_callbacks.add_argument(
            "--follow-redirects", action=BooleanOptionalAction, default=None, help="follow answers 307 and 308"
        )
        secret = of_callbacks.add_mutually_exclusive_group()
        secret.add_argument(
            "--authorization-file", metavar="FILE",
            help="file with the value of the Authorization header; -: standard input. It is never shown again",
        )  # fmt: skip
        secret.add_argument("--no-authorization", action="store_true", help="send none")
        of_queues = changes.add_argument_group("of queues")
        of_queues.add_argument("--region", metavar="REGION", help="as eu-central-1; empty: as the URL says")
        of_queues.add_argument("--message-group", metavar="GROUP", help="of a FIFO queue; empty: one for each schedule")


def _verb(
    verbs: "_SubParsersAction[Any]", name: str, what: str, example: str = "", *, named: bool = True
) -> ArgumentParser:
    more = f" For example: manage.py {example}" if example else ""
    made: ArgumentParser = verbs.add_parser(name, help=what, description=f"{what[0].upper()}{what[1:]}.{more}")
    if named:
        made.add_argument("name", metavar="NAME", help="of the endpoint")
    # without a default of its own, which would undo a --json before the verb
    made.add_argument("--json", action="store_true", default=SUPPRESS, help="print JSON")
    return made


def _json(said: str) -> Any:
    try:
        return json.loads(said)
    except (ValueError, RecursionError) as error:
        raise ArgumentTypeError(f'that is no JSON, as {{"X-Tenant": "7"}}: {said:.100}') from error
