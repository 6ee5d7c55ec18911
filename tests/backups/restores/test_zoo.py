"""The zoo: databases of PostgreSQL are backed up, drilled and restored over all servers; what differs was named."""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from backupsched.embedded.binaries import scratch_server
from engines.restores import drilling, postgresql
from engines.restores.drilling import DrillResult
from engines.restores.scratch import Scratch
from engines.restores.terms import Terms
from storage.restoring.base import Report, Wish
from tests.backups.restores.zoo import ANIMALS, Animal, properties, rows, schema
from tests.engines.peers import back_up
from tests.engines.postgresql_peer import DEBIAN, EMBEDDED, PostgresqlServer, postgresql_server
from tests.storage.building import ASSIGNMENT, Built

pytestmark = pytest.mark.slow

LOGIN = re.compile(r"backupsched_[0-9a-f]{16}")
NO_SCHEMA = ("DATABASE ", "TABLE DATA ", "MATERIALIZED VIEW DATA ")
LACKING = re.compile(
    r"table (.+) (?:is missing|has [\d,]+ rows), |(?:MATERIALIZED VIEW(?: DATA)?|SEQUENCE(?: SET)?) ([^:]+): "
)
ASKED_FOR = ("DATABASE ", "EXTENSION ", "COLLATION ", "TABLESPACE ", "EVENT TRIGGER ", "SUBSCRIPTION ")
"""Kinds that a server is asked for before a dump is fetched."""


@dataclass
class BackedUp:
    """An animal at one server, backed up."""

    animal: Animal
    source: PostgresqlServer
    database: str
    built: Built
    point: str

    def drilled(self, scratch: Scratch) -> DrillResult:
        return drilling.drill(self.built.store, ASSIGNMENT, scratch, source_kind="postgresql")


@dataclass
class Zoo:
    folder: Path
    servers: dict[int, PostgresqlServer]
    kept: dict[tuple[str, int], BackedUp] = field(default_factory=dict)

    def backed_up(self, name: str, of: int) -> BackedUp:
        animal, source = Animal(name, of), self.servers[of]
        if animal.said("of") not in ([], [str(of)]):
            pytest.skip(f"version {of} cannot make it")
        if (name, of) not in self.kept:
            database = animal.make(source)
            built = Built(self.folder / f"{name} of {of}")
            result = back_up(source.source(path=database), built.folder / "repository" / ASSIGNMENT)
            assert result.snapshot, result.error
            self.kept[name, of] = BackedUp(animal, source, database, built, result.snapshot)
        return self.kept[name, of]


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zoo]:
    with ExitStack() as stack:
        servers = {each: stack.enter_context(postgresql_server(each)) for each in (EMBEDDED, DEBIAN)}
        yield Zoo(tmp_path_factory.mktemp("zoo"), servers)


@pytest.fixture
def host(scratch: Path) -> Scratch:
    """Scratch space, and the servers that the host has."""
    return Scratch(**scratch_server(scratch, with_programs=True), reserve=0)


OF = pytest.mark.parametrize("of", [EMBEDDED, DEBIAN], ids="of {}".format)


@OF
@pytest.mark.parametrize("name", ANIMALS)
def test_a_drill_proves_what_a_restore_would_give_back(name: str, of: int, zoo: Zoo, host: Scratch) -> None:
    found = zoo.backed_up(name, of)
    drilled = found.drilled(replace(host, servers={}))
    assert "hunter" not in f"{drilled}"
    wrong = [each for each in found.animal.said("named") if not each.startswith(("DATABASE", "SECURITY LABEL"))]
    wrong = found.animal.said("doubtful") or wrong
    assert {each for each in wrong if each not in drilled.error} == set(), drilled
    assert bool(drilled.error) is bool(wrong), drilled
    for each in found.animal.said("notes"):
        assert any(note.startswith(f"{each}: ") for note in drilled.notes), drilled.notes
    lacks = found.animal.said("not here")
    assert (f"this host lacks {', '.join(lacks)}" in drilled.not_here) is bool(lacks), drilled
    if of == DEBIAN:
        by_host = found.drilled(host)
        assert bool(by_host.error) is bool(wrong), by_host
        assert (by_host.not_here, [each for each in by_host.notes if "made as C" in each]) == ("", []), by_host


def test_a_drill_takes_the_next_server_where_one_of_the_host_does_not_start(zoo: Zoo, host: Scratch) -> None:
    found = zoo.backed_up(ANIMALS[0], EMBEDDED)
    whole = found.drilled(replace(host, servers={}))
    for broken in ("initdb", "postgres", "nothing"):
        programs = Path(host.folder).with_name(f"without {broken}")
        programs.mkdir()
        for name in ("initdb", "postgres") if broken != "nothing" else ():
            body = "echo out of order; exit 1" if name == broken else f'exec "{host.programs}/{name}" "$@"'
            (programs / name).write_text(f"#!/bin/sh\n{body}\n")
            (programs / name).chmod(0o755)
        drilled = found.drilled(replace(host, servers={str(EMBEDDED): str(programs)}))
        assert (drilled.error, drilled.tables) == (whole.error, whole.tables), broken


@OF
@pytest.mark.parametrize("name", ANIMALS)
def test_what_differs_was_named(name: str, of: int, zoo: Zoo) -> None:
    """Restored into a server of each version if the dump is trusted, and into its own if it is not."""
    found = zoo.backed_up(name, of)
    before = schema(found.source, found.database)
    known = properties(found.source, found.database), rows(found.source, found.database)
    for to, trusted in ((EMBEDDED, True), (DEBIAN, True), (of, False)):
        target, back = zoo.servers[to], f"back_{name}_{of}_{to}_{trusted}".lower()
        foreseen, report = restored(found, target, back, trusted)
        assert "hunter" not in f"{report}"
        named = {each.partition(": ")[0] for each in report.failed if not each.startswith("table ")}
        expected = found.animal.named(to) | {*found.animal.said("" if trusted else "named by a login")}
        assert named == expected, (to, trusted, report.failed)
        more = {*found.animal.said(f"foreseen to {to}")}
        assert of_kinds_that_are_asked_for(foreseen) == of_kinds_that_are_asked_for(report) | more
        after = schema(target, back)
        if not trusted:
            after = {each: LOGIN.sub("admin", text) for each, text in after.items()}
            is_privileged = any("OWNER TO admin" in text for text in before.values())
            assert any(each.startswith("owners: ") for each in report.not_set) is is_privileged, report.not_set
        differs = differing(before, after)
        assert differs == {each for each in named if not each.startswith(NO_SCHEMA)}, {
            each: (before.get(each), after.get(each)) for each in differs | named
        }
        belongs = differing(known[0], properties(target, back))
        assert belongs == {of_database(each) for each in named if each.startswith("DATABASE ")}, report.failed
        assert differing(known[1], rows(target, back)) == rows_named(report), report.failed


def restored(found: BackedUp, target: PostgresqlServer, back: str, trusted: bool) -> tuple[Report, Report]:
    """The announcement of a dry run, which makes nothing, and the restore itself."""
    wish = Wish(ASSIGNMENT, found.point, Path(back), dry_run=True)
    there, cache = target.source(path=found.database), found.built.folder / "cache"

    def create(wish: Wish) -> Report:
        terms = Terms(trusted=trusted)
        return postgresql.create(wish, found.built.store, there, cache, lambda step: None, terms=terms)

    foreseen = create(wish)
    assert not [each for (each,) in target.ask("SELECT datname FROM pg_database") if each.startswith(back)]
    return foreseen, create(replace(wish, dry_run=False))


def of_database(named: str) -> str:
    """The named properties of the database, as in `properties`."""
    kind, _, rest = named.removeprefix("DATABASE ").partition(" ")
    return f"{kind} {rest}" if kind == "setting" else kind


def rows_named(report: Report) -> set[str]:
    """Tables, materialized views and sequences that are named as without their rows or values, or as not there."""
    found = [LACKING.match(each.replace('"', "")) for each in report.failed]
    return {each[1] or each[2] for each in found if each}


def of_kinds_that_are_asked_for(report: Report) -> set[str]:
    named = {each.partition(": ")[0].replace('"', "") for each in report.failed}
    return {each for each in named if each.startswith(ASKED_FOR)}


def differing(before: dict[str, str], after: dict[str, str]) -> set[str]:
    return {each for each in before.keys() | after.keys() if before.get(each) != after.get(each)}
