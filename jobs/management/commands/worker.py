import logging
from argparse import ArgumentParser
from dataclasses import replace
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db.utils import Error

from external.durations import duration
from jobs import conf, database_errors
from jobs.conf import QueueRule
from jobs.database_errors import is_refusal
from jobs.schema_check import differences
from jobs.worker.process import WorkerProcess
from jobs.worker.upgrades import OUTDATED

log = logging.getLogger(__name__)


class Command(BaseCommand):
    help = (
        "Run a worker: claim backlog records in claim order, run them, settle them. Start as many as you like, "
        "on as many hosts as you like. SIGTERM or Ctrl-C stops it cleanly (running records may end within "
        "--grace, then they are released); a second one stops it at once."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--concurrency",
            type=int,
            default=None,
            metavar="N",
            help="execution units: how many records of the queue that others feed, or of the only one, run at once",
        )
        parser.add_argument(
            "--queues",
            default="",
            metavar="NAME[:N],…",
            help="serve only these queues, each with N records at once, such as default:16",
        )
        parser.add_argument(
            "--grace",
            type=duration(),
            default=30.0,
            metavar="DURATION",
            help="for running records at a shutdown, such as 90s or 15m (30 s)",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        rules = _rules(options["queues"], options["concurrency"])
        worker = WorkerProcess(rules, grace=options["grace"])
        worker.install_signal_handlers()
        if worker.wait_until(is_migrated):
            worker.run()
        if worker.is_outdated:
            raise CommandError(OUTDATED, returncode=2)


def is_migrated() -> bool:
    """Returns True. Raises: CommandError if this version cannot work with the tables, which are older or too new, or
    if the database refuses this worker for good. django.db.Error.
    """
    try:
        found = differences()
    except Error as error:
        if is_refusal(error):
            raise CommandError(database_errors.describe_away(error), returncode=2) from error
        raise
    if found.what:
        raise CommandError(f"{found.what}. What to do: {found.to_do}.", returncode=2)
    if found.ahead:
        log.warning("%s; this version works with it, until this host is upgraded", found.ahead)
    return True


def _rules(queues: str, concurrency: int | None) -> list[QueueRule]:
    """The queue rules of the settings, narrowed and sized by the options. Raises: CommandError."""
    rules = conf.queue_rules()
    if queues:
        named = {rule.name: rule for rule in (_parse(part, rules) for part in queues.split(","))}
        # a request for one queue of a kind is for all: sources that have just checked in have a separate queue
        fed = {rule.feeds for rule in named.values()} - {None}
        rules = {name: rule for name, rule in rules.items() if rule.feeds in fed and name not in named} | named
    if concurrency is not None:
        if concurrency < 1:
            raise CommandError("--concurrency is a number of execution units, 1 or more", returncode=2)
        sized = {rule.feeds for rule in conf.queue_rules().values() if rule.feeds} or set(conf.queue_rules())
        if len(sized) > 1:
            raise CommandError(
                "--concurrency sets the units of a single queue; for several, use --queues", returncode=2
            )
        [name] = sized
        if name not in rules:
            raise CommandError(f"--concurrency is for the queue {name}, which --queues leaves out", returncode=2)
        rules[name] = replace(rules[name], concurrency=concurrency)
    return list(rules.values())


def _parse(part: str, known: dict[str, QueueRule]) -> QueueRule:
    name, _, number = part.strip().partition(":")
    if name not in known:
        raise CommandError(f"--queues: no queue {name!r}; there are {', '.join(known)}", returncode=2)
    if number and not (number.isdigit() and int(number) > 0):
        raise CommandError(f"--queues: {part!r}: {number!r} is not a number of 1 or more", returncode=2)
    return replace(known[name], concurrency=int(number)) if number else known[name]
