"""The stage of the parts: the server, the options, the databases made so far, and the results."""

import hashlib
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from proving.bench.contestant import Contestant
from proving.bench.contestants import CONTESTANTS
from proving.bench.gate import GateTimeout
from proving.bench.processes import ContestantFailed, call, call_within
from proving.bench.results import Results, Say
from proving.bench.server import BenchServer

BEHIND, BESIDE = "behind", "beside"
LONGEST_MAKING = 3600.0
MAKERS = ("aged", "month", "inserting")
ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class BenchOptions:
    """The amounts to measure. `jobs`: those in a drain. `others`: those ready behind them or waiting next to them."""

    repeats: int = 3
    minutes: float = 30.0
    """No repeat begins afterwards."""
    jobs: int = 20_000
    others: int = 1_000_000
    letters: int = 70
    """Single jobs in one repeat of the latency: 200 and more in three."""
    capped_jobs: int = 2_000
    capped_repeats: int | None = None
    """`repeats` if None."""
    claims: int = 400
    memory_jobs: int = 200_000
    assignments: int = 100_000
    """Assignments due at once, in the parts on backups."""
    events: int = 100_000
    """Events in one batch."""
    decisions: int = 400
    absent: int = 700
    """Sources that do not answer, in one sweep."""
    crowd: int = 10_000
    """Sources that do not answer, before those that do."""
    arrivals: int = 50
    """Check-ins in one repeat."""
    poison: int = 10_000
    """Records that can never succeed."""
    batches: int = 12
    """Batches of good records next to them, an hour apart."""
    outage_jobs: int = 1_000
    """Jobs that need a service which is down."""
    files: int = 10_000
    """Files of 100 kB each, in one backup."""
    sources: int = 100_000
    """Sources in the largest fleet whose pages are opened."""
    largest_only: bool = False
    """Open only that fleet's pages."""
    surfaces: tuple[str, ...] = ()
    """Open only pages with one of these words in their names, or all if there are none."""
    kept: Path | None = None
    """The directory in which the server stays from one run to the next, with its fleets."""
    all_shapes: bool = False
    """Also copy many small files, and a few large ones."""
    hardest_only: bool = False
    """Measure only the most expensive case of a part on backups."""
    only: frozenset[str] = frozenset()
    slow_share: float = 1.0
    """The share of their jobs that slow contestants drain."""
    all_beside_others: bool = False


@dataclass
class Stage:
    server: BenchServer
    options: BenchOptions
    results: Results
    say: Say
    began: float = field(default_factory=time.monotonic)
    rows: dict[tuple[str, int], int] = field(default_factory=dict)
    """Name of a page and number of sources → rows that were read for it."""
    _tables: set[str] = field(default_factory=set)
    _templates: set[str] = field(default_factory=set)
    _out: set[str] = field(default_factory=set)

    def repeats(self, part: str, wanted: int | None = None) -> Iterator[int]:
        """Count the repeats of a part, until the time is up."""
        for number in range(wanted or self.options.repeats):
            if time.monotonic() - self.began > self.options.minutes * 60:
                self.results.failures.append(f"{part}: {number} repeats, then the {self.options.minutes:g} min were up")
                return
            yield number

    def cast(self, names: Iterable[str]) -> list[Contestant]:
        """The contestants of these names that are installed, wanted, and have not failed."""
        wanted = [CONTESTANTS[name] for name in names if not self.options.only or name in self.options.only]
        for contestant in wanted:
            if contestant.version is None and contestant.name not in self._out:
                self.say(f"{contestant.name} is left out: {contestant.distribution} is not installed here")
                self._out.add(contestant.name)
        return [contestant for contestant in wanted if contestant.name not in self._out]

    def jobs_of(self, contestant: Contestant) -> int:
        """The number of jobs that it drains: fewer for a slow one."""
        if contestant.at_most is None:
            return self.options.jobs
        return min(self.options.jobs, int(contestant.at_most * self.options.slow_share))

    def template(self, contestant: Contestant, jobs: int, others: int = 0, where: str = "") -> str:
        """A database with its tables, `jobs` measured jobs and `others` behind them or next to them. Made once."""
        name = "-".join(filter(None, ["t", contestant.family, str(jobs), where, str(others or "")]))
        if name in self._templates:
            return name
        with self._new_template(contestant, name) as url:
            if others:
                with self.server.connect(name) as connection:
                    (contestant.put_behind if where == BEHIND else contestant.put_beside)(connection, others)
            if jobs:
                call(contestant, "enqueue", url=url, count=jobs)
        return name

    def template_by(self, contestant: Contestant, command: str, **options: Any) -> str:
        """A database with its tables and the rows that one of its commands makes with `options`. Made once."""
        name = "-".join(["t", contestant.family, command, *(str(value).lower() for value in options.values())])
        if name not in self._templates:
            with self._new_template(contestant, name) as url:
                call(contestant, command, url=url, **options)
        return name

    def fleet(self, contestant: Contestant, sources: int, directory: Path) -> str:
        """A database with a fleet of that size after thirty days. A kept one is used again, and migrated."""
        name = f"aged-{sources}-{_made_by()}"
        if self.server.exists(name):
            call_within(LONGEST_MAKING, contestant, "prepare", url=self.server.url(name))
            return name
        began, draft = time.monotonic(), f"{name}-draft"
        for made_otherwise in self.server.names(f"aged-{sources}-"):
            self.server.drop(made_otherwise)
        self.server.create(draft)
        url = self.server.url(draft)
        call(contestant, "prepare", url=url)
        call_within(LONGEST_MAKING, contestant, "make_aged", url=url, sources=sources, directory=str(directory))
        self.server.settle_down(draft)
        self.server.rename(draft, name)
        self.say(f"made a fleet of {sources:,} sources in {time.monotonic() - began:.0f} s")
        return name

    def tables_of(self, contestant: Contestant) -> str:
        """A database with its empty tables. Made once."""
        name = f"tables-{contestant.family}"
        if name not in self._tables:
            self.say(f"making the tables of {contestant.name}")
            self.server.create(name)
            call(contestant, "prepare", url=self.server.url(name))
            self._tables.add(name)
        return name

    @contextmanager
    def _new_template(self, contestant: Contestant, name: str) -> Iterator[str]:
        tables = self.tables_of(contestant)
        self.say(f"making the database {name}")
        self.server.create(name, tables)
        yield self.server.url(name)
        self.server.settle_down(name)
        self._templates.add(name)

    def drop_templates(self) -> None:
        """Drop the templates to free their space."""
        for name in self._templates:
            self.server.drop(name)
        self._templates.clear()

    @contextmanager
    def trying(self, contestant: Contestant) -> Iterator[None]:
        """Note a failure of the contestant, which ends the block; the others continue without it."""
        try:
            yield
        except (ContestantFailed, GateTimeout) as error:
            self.results.failures.append(str(error))
            self.say(f"FAILED: {error}")
            self._out.add(contestant.name)


def _made_by() -> str:
    """A digest that distinguishes fleets that were made in different ways."""
    texts = [(ROOT / "proving" / "bench" / "fleets" / f"{name}.py").read_text() for name in MAKERS]
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:8]
