import os
import sys
import time
from argparse import ArgumentParser
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from heapq import merge
from itertools import islice
from types import SimpleNamespace
from typing import Any

from django.core.management.base import CommandError
from django.db.models import Q

from declarations.surfaces.commands.base import TerminalCommand
from declarations.unknown import named
from external import durations
from jobs import conf
from jobs.clock import database_clock
from jobs.models import Decision, Level
from jobs.order import REASONS, deciding_key
from sources import planning
from sources.models import Assignment, Policy, Source

MAX_LIMIT = 100_000
LOOKED_FOR = 20
"""The most assignments that the database looks for among the records that claims looked at; for more, all claims are
read.
"""
LOOK_EVERY = 1.0
LOOK_BACK = timedelta(seconds=60)
"""While following: a line is dated before its transaction commits, so those of the last minute are read again."""


@dataclass
class LogQuery:
    """The lines that the options ask for; instants are aware. `subjects`: only lines about these; `candidates`: the
    assignments among them, which a claim may have looked at.
    """

    since: datetime
    until: datetime | None
    levels: list[Level]
    subjects: frozenset[str] | None = None
    candidates: frozenset[str] = frozenset()


HELP = (
    "Print the log of decisions, oldest first: when (UTC), what, and a sentence. For a source: its lines, and "
    "those of its assignments and policies. Exit codes: 0, 1 when there is no line, 2 for bad usage."
)


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("source", nargs="?", metavar="SOURCE", help="name of a source (all lines)")
    parser.add_argument("--policy", metavar="NAME", help="only lines of this policy and its assignments")
    parser.add_argument("--since", default="24h", metavar="WHEN", help="90m, 7d or 2026-03-02T12:00 (UTC; %(default)s)")
    parser.add_argument("--until", metavar="WHEN", help="in the same form (now)")
    parser.add_argument(
        "--considering", action="store_true", help="also the claims that looked at it: its rank, and what decided"
    )
    parser.add_argument("--limit", type=int, default=200, metavar="N", help="the latest N lines (%(default)s)")
    parser.add_argument("--follow", action="store_true", help="continue with new lines until Ctrl-C")


def run(command: TerminalCommand, options: dict[str, Any]) -> None:
    wanted = _wanted(options, database_clock())
    if options["considering"] and not conf.considering():
        _note(command, "claims are not being logged: BACKUPSCHED_CONSIDERING=1 for the workers turns that on")
    try:
        _print_lines(command, wanted, options["limit"], follow=options["follow"])
    except KeyboardInterrupt:
        command.stderr.write("")
    except BrokenPipeError:  # as by `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _print_lines(command: TerminalCommand, wanted: LogQuery, limit: int, *, follow: bool) -> None:
    lines = list(islice(_newest_first(wanted, limit + 1), limit + 1))
    if len(lines) > limit:
        _note(command, f"these are the latest {limit:,} lines; --limit N shows more")
    shown = lines[:limit][::-1]
    _write(command, shown, wanted.candidates)
    if follow:
        _follow(command, wanted, shown)
    elif not shown:
        raise CommandError(
            f"nothing was logged since {wanted.since:%Y-%m-%d %H:%M} UTC; lines are kept for "
            f"{conf.keep_log().days} days",
            returncode=1,
        )


def _follow(command: TerminalCommand, wanted: LogQuery, shown: list[Decision]) -> None:
    seen = {line.pk for line in shown}
    while True:
        wanted.since = max(wanted.since, database_clock() - LOOK_BACK)
        found = list(_newest_first(wanted))[::-1]
        _write(command, [line for line in found if line.pk not in seen], wanted.candidates)
        seen = {line.pk for line in found}
        time.sleep(LOOK_EVERY)


def _write(command: TerminalCommand, lines: list[Decision], candidates: frozenset[str]) -> None:
    for line in lines:
        facts = _facts(line, candidates)
        command.answer(facts, _sentence(line, facts))
    command.stdout.flush()


def _note(command: TerminalCommand, text: str) -> None:
    command.stderr.write(text, command.style.NOTICE)


def _wanted(options: dict[str, Any], now: datetime) -> LogQuery:
    """Raises: ValueError for instants and limits that make no sense, and for an unknown name."""
    if not 1 <= options["limit"] <= MAX_LIMIT:
        raise ValueError(f"--limit {options['limit']}: give 1 to {MAX_LIMIT}")
    if options["follow"] and options["until"] is not None:
        raise ValueError("--follow has no end; leave out --until")
    since = durations.instant(options["since"], now)
    until = None if options["until"] is None else durations.instant(options["until"], now)
    if since > (until or now):
        end = f"--until {options['until']}" if until else "now"
        raise ValueError(f"--since {options['since']} is after {end}")
    levels = [Level.DOING, Level.CONSIDERING] if options["considering"] else [Level.DOING]
    return LogQuery(since, until, levels, *_about(options["source"], options["policy"]))


def _about(source_name: str | None, policy_name: str | None) -> tuple[frozenset[str] | None, frozenset[str]]:
    """The subjects of a source, of a policy, or of a source under a policy, and the assignments among them."""
    if source_name is None and policy_name is None:
        return None, frozenset()
    assignments = Assignment.objects.all()
    subjects = set()
    if source_name is not None:
        source = named(Source.objects, source_name)
        assignments = assignments.filter(source=source)
        subjects.add(planning.subject_of_source(source.pk))
    if policy_name is not None:
        policy = named(Policy.objects, policy_name, "schedule__name")
        assignments = assignments.filter(policy=policy)
        subjects.add(planning.subject_of_policy(policy.pk))
    found = list(assignments.values_list("pk", "policy"))
    subjects |= {planning.subject_of_policy(policy_id) for _, policy_id in found}
    candidates = frozenset(planning.subject_of(pk) for pk, _ in found)
    return candidates | subjects, candidates


def _newest_first(wanted: LogQuery, at_most: int = MAX_LIMIT) -> Iterator[Decision]:
    """The lines of each wanted level, newest first; at least `at_most` of each, if there are that many."""
    levels = (_lines(wanted, level, at_most) for level in wanted.levels)
    return merge(*levels, key=lambda line: (line.at, line.pk), reverse=True)


def _lines(wanted: LogQuery, level: Level, at_most: int) -> Iterator[Decision]:
    lines = Decision.objects.filter(level=level, at__gte=wanted.since).order_by("-at", "-pk")
    if wanted.until:
        lines = lines.filter(at__lt=wanted.until)
    if wanted.subjects is None:
        yield from lines[:at_most]
    elif level == Level.DOING:
        yield from lines.filter(kind__in=planning.OF_ASSIGNMENTS, subject__in=wanted.subjects)[:at_most]
    else:
        if len(wanted.candidates) <= LOOKED_FOR:
            looked_at = Q(pk__in=[])
            for subject in wanted.candidates:
                record = [{"subject": subject}]
                looked_at |= Q(facts__claimed__contains=record) | Q(facts__left__contains=record)
            lines = lines.filter(looked_at)
        yield from (line for line in lines.iterator(chunk_size=500) if _place(line, wanted.candidates))


def _place(line: Decision, candidates: frozenset[str]) -> dict[str, Any] | None:
    """The place of the first of `candidates` in a claim: its rank, and the key that decided about it.

    A claimed record is compared with the next one after it; one that was left, with the last one claimed.
    """
    claimed, left = line.facts.get("claimed") or [], line.facts.get("left") or []
    looked_at = [*claimed, *left]
    for index, record in enumerate(looked_at):
        if record.get("subject") in candidates:
            # a line names only some of the claimed records: the ranks of those left follow all of the claimed ones
            was_left = index >= len(claimed)
            rank = index + 1 + (line.facts.get("count", len(claimed)) - len(claimed) if was_left else 0)
            first, second = (claimed[-1:], [record]) if was_left else ([record], looked_at[index + 1 : index + 2])
            key = deciding_key(_ranked(first[0]), _ranked(second[0])) if first and second else None
            other = (first if was_left else second) if key else []
            against = other[0].get("title") if other else None
            return {"title": record.get("title"), "rank": rank, "claimed": not was_left,
                    "decided_by": key, "against": against}  # fmt: skip
    return None


def _ranked(record: dict[str, Any]) -> Any:
    names = ("id", "priority", "rank_day", "tried_at", "expected_seconds")
    return SimpleNamespace(**{name: record.get(name) for name in names})


def _facts(line: Decision, candidates: frozenset[str]) -> dict[str, Any]:
    names = ("what", "text", "kind", "queue", "subject", "record_id", "worker_id", "facts")
    facts = {"at": line.at.astimezone(UTC).isoformat(), "level": Level(line.level).label}
    facts |= {name: getattr(line, name) for name in names}
    place = _place(line, candidates) if line.level == Level.CONSIDERING else None
    return facts | {"place": place} if place else facts


def _sentence(line: Decision, facts: dict[str, Any]) -> str:
    text = f"{line.at.astimezone(UTC):%Y-%m-%d %H:%M:%S}  {line.what:<12}  {' '.join(line.text.splitlines())}"
    if place := facts.get("place"):
        order = "claimed" if place["claimed"] else "left"
        text += f" | {place['title']} was {order} at rank {place['rank']}"
        if place["decided_by"]:
            sign = "before" if place["claimed"] else "after"
            text += f", {sign} {place['against']}: {REASONS[place['decided_by']]}"
    return text
