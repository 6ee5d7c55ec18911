"""Pages and commands as users open them, with fleets of three sizes: how long they take, and which grow too fast.

Each page is opened several times in a row in one process, the first of which is the slowest, and home once before all
others, as in a process that has just started; nothing that pages keep for the next one counts. A command is a separate
process, with its start, and is run again only while it is quick. A page that takes longer with ten times the sources
than `n log n` allows is marked, and so is one that reads more than a million rows.
"""

from collections.abc import Callable, Iterable
from functools import partial
from itertools import pairwise
from math import log
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from proving.bench.contestant import Contestant
from proving.bench.processes import call, call_within
from proving.bench.results import Key
from proving.bench.stage import Stage

NAME = "backups-ours"
FEWEST, STEP, SIZES = 1000, 10, 3
COMMANDS = (
    "status", "sources", "sources --json", "backlog", "backlog errors", "doctor", "schedules", "sources export",
    "sources export --json", "apply --dry-run", "one window changed",
)  # fmt: skip
QUICK_SECONDS = 5.0
ROUND = "the minute's round"
LONGEST_LOOK = 3600.0
MILLION = 1_000_000
MANY_ROWS, LONG = 20_000, 100.0
"""Fewer rows and fewer milliseconds may grow as they like."""
CHANCE = 1.3
WORST = 5


def run(stage: Stage) -> None:
    sizes = sizes_up_to(stage.options.sources)[-1 if stage.options.largest_only else 0 :]
    for contestant in stage.cast([NAME]):
        with stage.trying(contestant):
            for size in sizes:
                measure(stage, contestant, size)
            mark(stage, sizes)


def sizes_up_to(largest: int) -> list[int]:
    """The sizes of the fleets: each ten times the one before, at least a thousand sources."""
    found = [largest // STEP**power for power in reversed(range(SIZES))]
    return [size for size in found if size >= FEWEST] or [largest]


def measure(stage: Stage, contestant: Contestant, size: int) -> None:
    """Open all wanted pages. Raises: ContestantFailed."""
    with TemporaryDirectory(prefix="backlog-bench-fleet-") as name:
        directory = stage.options.kept or Path(name)
        database = stage.fleet(contestant, size, directory)
        at = {"url": stage.server.url(database), "directory": name}
        looks: dict[str, Callable[[], Any]] = {ROUND: partial(call, contestant, "run_minute", **at)}
        looks |= {f"`{each}`": partial(call, contestant, "run_command", name=each, **at) for each in COMMANDS}
        wanted, repeats = list(stage.options.surfaces), stage.options.repeats
        looks[ROUND]()  # as a worker does, before any page is opened: it keeps the count of today
        opened = call_within(LONGEST_LOOK, contestant, "open_pages", wanted=wanted, repeats=repeats, **at)
        for title, found in opened.items():
            note(stage, title, size, found)
        for title, look in looks.items():
            if wanted and not any(word in title for word in wanted):
                continue
            found = look()
            while len(found["taken"]) < repeats and found["taken"][-1] < QUICK_SECONDS:
                found["taken"] += look()["taken"]
            note(stage, title, size, found)
    _name_the_worst(stage, opened, size)


def note(stage: Stage, title: str, size: int, found: dict[str, Any]) -> None:
    """Keep the figures that a look has `found`, and report its median and its maximum."""
    memory = f", {found['memory']:.0f} MB" if "memory" in found else ""
    memory += f", {found['processor'] * 1000:,.0f} ms of the database's processor" if "processor" in found else ""
    text = f"{found['statements']:,} statements, {found['rows']:,} rows{memory}, {found['bytes'] / 1000:,.0f} kB"
    if found["wrong"]:
        stage.results.failures.append(f"pages: {title}, {size:,} sources: {found['wrong']}")
        text = f"{found['wrong']}: {text}"
    if found["rows"] > MILLION:
        text += ", OVER A MILLION ROWS"
    for seconds in found["taken"]:
        stage.results.add(_key(title, size), seconds * 1000, "ms", text)
    stage.rows[title, size] = found["rows"]
    taken = stage.results.series[_key(title, size)].values
    stage.say(f"pages, {size:,} sources: {title} {median(taken):,.0f} ms, at most {max(taken):,.0f} ms, {text}")


def _key(title: str, size: int) -> Key:
    return Key("pages", title, f"{size:,} sources")


def _name_the_worst(stage: Stage, opened: dict[str, dict[str, Any]], size: int) -> None:
    """Add the slowest statement of each of the slowest pages to the remarks."""
    slowest = sorted(opened.items(), key=lambda each: -each[1]["slowest"][1])[:WORST]
    for title, found in slowest:
        statement, seconds = found["slowest"]
        stage.results.remarks.append(f"{title}, {size:,} sources: {seconds * 1000:,.0f} ms for\n{statement}\n")


def mark(stage: Stage, sizes: Iterable[int]) -> None:
    """Mark each page and command with the step in which it grew too fast, if it was measured at both ends of it."""
    titles = dict.fromkeys(key.case for key in stage.results.series if key.part == "pages")
    ordered = list(sizes)
    for title in titles:
        for fewer, more in pairwise(ordered):
            few, many = (stage.results.series.get(_key(title, size)) for size in (fewer, more))
            if few is None or many is None:
                continue
            times = many.median > LONG and grows_too_fast(few.median, many.median, fewer, more)
            rows = stage.rows[title, fewer], stage.rows[title, more]
            reads = rows[1] > MANY_ROWS and grows_too_fast(*rows, fewer, more)
            if times or reads:
                ratio = many.median / few.median
                many.note += (
                    f", GROWS FASTER THAN n log n: × {ratio:.0f} in time, × {rows[1] / max(1, rows[0]):.0f} in rows"
                )


def grows_too_fast(few: float, many: float, fewer: int, more: int) -> bool:
    """True if a cost of `few` with `fewer` sources and `many` with `more` grows faster than n log n."""
    return many > CHANCE * max(few, 1) * (more * log(more)) / (fewer * log(fewer))
