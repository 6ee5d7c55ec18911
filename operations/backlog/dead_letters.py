"""Dead letters: the failed records, grouped by their errors.

Two errors are the same when they are alike except for numbers, ids, instants, addresses, paths and the record's own
name. The folded text decides; its digest names the group, so that it is the same in every process and on every day.
"""

import hashlib
import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from jobs.prepared_statements import execute
from jobs.states import Status

MOST_READ = 10_000
"""Failed records that a table of groups is made of, the newest; folding that many takes half a second."""

LENGTH_READ = 1000
"""Characters of an error that are looked at: the cause comes first."""

LENGTH_FOLDED = 300

SHORTEST_NAME = 3
"""A record that is called `a` must not turn every article into its name."""

# The order is that in which they are tried at each place. No repetition contains another one that it could be taken
# for, so the time stays in proportion to the length. The number after `status` or `code` names the cause, and is kept.
PATTERNS = {
    "KEPT": r"""
        \b(?:code|status|statuscode|http(?:/\d\.\d)?|errno|signal|error|sqlstate)(?:\ code)?[\ :=]{1,2}\d{1,5}\b""",
    "ADDRESS": r"""
        \b[0-9a-f]{2}(?:[:-][0-9a-f]{2}){5}\b
      | (?<![\w.])\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}(?:/\d{1,2})?(?::\d{1,5})?(?![\w/])(?!\.\w)
      | \[[0-9a-f:.]{2,45}(?:%\w{1,20})?\](?::\d{1,5})?
      | (?<![\w:.])(?=[0-9a-f:]{0,44}[0-9])(?:[0-9a-f]{0,4}:){3,7}[0-9a-f]{0,4}(?![\w:])
      | (?<![\w:.])[0-9a-f]{0,4}::[0-9a-f]{1,4}(?![\w:])
      | [\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,9}
      | \b[a-z][\w+-]{1,20}://[^\s"'<>)\],;]{1,900}
      | (?<![\w.-])(?=localhost|[a-z][a-z_]{0,60}[.\d-])[a-z][\w.-]{0,200}:\d{2,5}\b""",
    "TIME": r"""
        \b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?:Z|\ ?UTC|[+-]\d\d:?\d\d)?)?\b
      | \b\d{4}/\d\d/\d\d(?:\ \d\d:\d\d:\d\d)?\b
      | (?<![\w:.])\d{1,2}:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?![\w:])""",
    "PATH": r"""
        "[^"\n]{0,300}[/\\][^"\n]{0,600}"
      | (?<!\w)'[^'\n]{0,300}[/\\][^'\n]{0,600}'
      | "[^"\n/\\]{1,200}\.\w{1,4}"
      | (?<!\w)'[^'\n/\\]{1,200}\.\w{1,4}'
      | (?<![\w/.])(?:~|\.{1,2})?/[^\s"'<>:;,)(]{1,900}
      | \b[a-z]:\\[^\s"'<>:;,)(]{1,900}
      | (?<!\w)[\w.-]{1,100}(?:/[\w.+=@-]{1,100}){2,50}/?
      | (?<!\w)[\w.-]{1,100}/[\w+=@-]{1,100}\.\w{1,5}\b""",
    "ID": r"""
        \b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b
      | \b0x[0-9a-f]{1,64}\b
      | \b(?=[0-9a-f]{0,127}[0-9])(?=[0-9a-f]{0,127}[a-f])[0-9a-f]{7,128}\b
      | \b(?=[A-Z0-9]{0,63}[0-9])(?=[A-Z0-9]{0,63}[A-Z])[A-Z0-9]{12,64}\b""",
    "N": r"(?<![\d.,])\d(?:[\d.,']{0,60}\d)?",
}
FOLDED = re.compile("|".join(f"(?P<{name}>{each})" for name, each in PATTERNS.items()), re.VERBOSE | re.IGNORECASE)
WORD = re.compile(r"\w")
REPEATED = re.compile(r"\b(ADDRESS|TIME|PATH|ID|N)(?:(?:,\ ?|;\ ?|\ |\ and\ )\1\b)+", re.VERBOSE)


def fold(error: str, *names: str) -> str:
    """The text of `error` on one line, without the parts that differ from record to record; empty if it has none.

    The first line counts, and the one after it when the first only announces it (it ends with a colon). `names`: the
    names of the record; NAME replaces each.
    """
    lines = [line.strip() for line in error[:LENGTH_READ].splitlines() if line.strip()]
    text = " ".join(lines[: 2 if lines and lines[0].endswith(":") else 1])
    for name in sorted((name for name in names if len(name) >= SHORTEST_NAME), key=len, reverse=True):
        text = _without(text, name)
    folded = FOLDED.sub(_folded, " ".join(text.split()))
    return REPEATED.sub(r"\1", folded)[:LENGTH_FOLDED]


def _without(text: str, name: str) -> str:
    """`text` with NAME in place of `name` where that is a whole word. Without a pattern: compiling one for each record
    would take longer than all the rest.
    """
    done, *parts = text.split(name)
    for part in parts:
        inside = WORD.match(part) or WORD.match(done[-1:])
        done += (name if inside else "NAME") + part
    return done


def _folded(found: re.Match[str]) -> str:
    return found[0] if found.lastgroup == "KEPT" else str(found.lastgroup)


def group_id(folded: str) -> str:
    """The name of the group of all errors that fold to `folded`: 12 hexadecimal digits."""
    return hashlib.sha256(folded.encode("utf-8", "replace")).hexdigest()[:12]


@dataclass
class DeadLetter:
    """Failed records with the same folded error. `example` is the last error of the newest one, `example_id` its id.

    `ids`: all of the records, the newest first. `first_at` and `last_at`: when the first and the last one gave up.
    """

    group: str
    says: str
    example: str
    example_id: int
    first_at: datetime
    last_at: datetime
    ids: list[int] = field(default_factory=list)
    kinds: set[str] = field(default_factory=set)
    queues: set[str] = field(default_factory=set)

    @property
    def count(self) -> int:
        """The number of its records."""
        return len(self.ids)


@dataclass(frozen=True)
class DeadLetters:
    """The groups, the largest first. `read`: the number of newest failed records that were looked at; `more`: True if
    there are older ones that were not.
    """

    groups: list[DeadLetter]
    read: int
    more: bool


class FailedRow(NamedTuple):
    """The columns of a failed record that decide its group."""

    id: int
    kind: str
    queue: str
    subject: str
    title: str
    finished_at: datetime
    error: str

    @property
    def says(self) -> str:
        return fold(self.error, self.title, self.subject)


# Served by `backlog_failed`: the newest first, and nothing but failed records is read.
NEWEST_FAILED = f"""
SELECT id, kind, queue, subject, COALESCE(payload ->> 'title', ''), finished_at, left(last_error, {LENGTH_READ})
  FROM jobs_backlogrecord
 WHERE status = {Status.FAILED}
   AND (%(kind)s::text IS NULL OR kind = %(kind)s::text)
   AND (%(queue)s::text IS NULL OR queue = %(queue)s::text)
 ORDER BY finished_at DESC, id DESC
 LIMIT %(limit)s::int
"""


def dead_letters(kind: str | None = None, queue: str | None = None, *, most: int = MOST_READ) -> DeadLetters:
    """The groups among the `most` newest failed records, of that kind and queue if they are given."""
    rows, groups = _newest_failed(kind, queue, most + 1), dict[str, DeadLetter]()
    for row in rows[:most]:
        if (known := groups.get(says := row.says)) is None:
            known = DeadLetter(group_id(says), says, row.error, row.id, row.finished_at, row.finished_at)
            groups[says] = known
        known.ids.append(row.id)
        known.kinds.add(row.kind)
        known.queues.add(row.queue)
        known.first_at = row.finished_at
    largest = sorted(groups.values(), key=lambda each: (-each.count, -each.last_at.timestamp()))
    return DeadLetters(largest, len(rows[:most]), len(rows) > most)


def ids_like(group: str, kind: str | None = None, queue: str | None = None) -> list[int]:
    """Ids, ascending, of the failed records that `dead_letters` counts under that group."""
    return sorted(row.id for row in _newest_failed(kind, queue, MOST_READ) if group_id(row.says) == group)


def _newest_failed(kind: str | None, queue: str | None, most: int) -> list[FailedRow]:
    rows = execute(NEWEST_FAILED, {"kind": kind, "queue": queue, "limit": most}).fetchall()
    return [FailedRow(*row) for row in rows]


def facts_of(found: DeadLetters) -> dict[str, Any]:
    """The table as facts by name; an example is cut at the length that was read."""
    names = ("group", "says", "count", "first_at", "last_at", "example_id", "example")
    groups = [
        {name: getattr(each, name) for name in names} | {"kinds": sorted(each.kinds), "queues": sorted(each.queues)}
        for each in found.groups
    ]
    return {"groups": groups, "read": found.read, "more": found.more}
