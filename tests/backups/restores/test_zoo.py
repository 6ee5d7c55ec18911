"""The zoo: databases of PostgreSQL are backed up, drilled and restored over all servers; what differs was named."""

import re
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
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
    """An animal at one server, backed up and drilled."""

    animal: Animal
    source: PostgresqlServer
    database: str
    built: Built
    point: str
    drilled: DrillResult
    drilled_by_host: DrillResult
    """With the servers that the host has, too."""


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
            with drills_folder() as var:
                host = Scratch(**scratch_server(var, with_programs=True), reserve=0)
                drilled, by_host = (
                    drilling.drill(built.store, ASSIGNMENT, each, source_kind="postgresql")
                    for each in (replace(host, servers={}), host)
                )
            self.kept[name, of] = BackedUp(animal, source, database, built, result.snapshot, drilled, by_host)
        return self.kept[name, of]


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zoo]:
    with ExitStack() as stack:
        servers = {each: stack.enter_context(postgresql_server(each)) for each in (EMBEDDED, DEBIAN)}
        yield Zoo(tmp_path_factory.mktemp("zoo"), servers)


@contextmanager
def drills_folder() -> Iterator[Path]:
    """A folder that an account without rights may pass through: the scratch server runs as one."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o711)
        yield Path(folder)


@pytest.mark.parametrize("of", [EMBEDDED, DEBIAN], ids="of {}".format)
@pytest.mark.parametrize("name", ANIMALS)
def test_a_drill_proves_what_a_restore_would_give_back(name: str, of: int, zoo: Zoo) -> None:
    found = zoo.backed_up(name, of)
    assert "hunter" not in f"{found.drilled}"
    wrong = [each for each in found.animal.said("named") if not each.startswith(("DATABASE", "SECURITY LABEL"))]
    wrong = found.animal.said("doubtful") or wrong
    assert {each for each in wrong if each not in found.drilled.error} == set(), found.drilled
    assert bool(found.drilled.error) is bool(wrong), found.drilled
    for each in found.animal.said("notes"):
        assert any(note.startswith(f"{each}: ") for note in found.drilled.notes), found.drilled.notes
    lacks = found.animal.said("not here")
    assert (f"this host lacks {', '.join(lacks)}" in found.drilled.not_here) is bool(lacks), found.drilled
    if of == DEBIAN:
        by_host = found.drilled_by_host
        assert bool(by_host.error) is bool(wrong), by_host
        assert (by_host.not_here, [each for each in by_host.notes if "made as C" in each]) == ("", []), by_host


@pytest.mark.parametrize("broken", ["initdb", "postgres", "nothing"])
def test_a_drill_takes_the_next_server_where_one_of_the_host_does_not_start(broken: str, zoo: Zoo) -> None:
    found = zoo.backed_up(ANIMALS[0], EMBEDDED)
    with drills_folder() as var:
        host = Scratch(**scratch_server(var, with_programs=True), reserve=0)
        programs = var / "broken"
        programs.mkdir()
        for name in ("initdb", "postgres"):
            script = programs / name
            body = "echo out of order; exit 1" if name == broken else f'exec "{host.programs}/{name}" "$@"'
            if broken != "nothing":
                script.write_text(f"#!/bin/sh\n{body}\n")
                script.chmod(0o755)
        beside = replace(host, servers={str(EMBEDDED): str(programs)})
        drilled = drilling.drill(found.built.store, ASSIGNMENT, beside, source_kind="postgresql")
    assert (drilled.error, drilled.tables) == (found.drilled.error, found.drilled.tables)


WAYS = [
    *((of, to, True) for of in (EMBEDDED, DEBIAN) for to in (EMBEDDED, DEBIAN)),
    *((each, each, False) for each in (EMBEDDED, DEBIAN)),
]
"""The versions of a dump's server and of the one that it goes into, and whether the dump is trusted."""


@pytest.mark.parametrize(("of", "to", "trusted"), WAYS)
@pytest.mark.parametrize("name", ANIMALS)
def test_what_differs_was_named(name: str, of: int, to: int, trusted: bool, zoo: Zoo) -> None:
    found, target = zoo.backed_up(name, of), zoo.servers[to]
    back = f"back_{name}_{of}_{trusted}".lower()
    wish = Wish(ASSIGNMENT, found.point, Path(back))
    there, cache = target.source(path=found.database), found.built.folder / "cache"

    def create(wish: Wish) -> Report:
        terms = Terms(trusted=trusted)
        return postgresql.create(wish, found.built.store, there, cache, lambda step: None, terms=terms)

    foreseen = create(replace(wish, dry_run=True))
    assert not [each for (each,) in target.ask("SELECT datname FROM pg_database") if each.startswith(back)]
    report = create(wish)

    assert "hunter" not in f"{report}"
    named = {each.partition(": ")[0] for each in report.failed if not each.startswith("table ")}
    expected = found.animal.named(to) | {*found.animal.said("" if trusted else "named by a login")}
    assert named == expected, report.failed
    more = {*found.animal.said(f"foreseen to {to}")}
    assert of_kinds_that_are_asked_for(foreseen) == of_kinds_that_are_asked_for(report) | more
    before, after = schema(found.source, found.database), schema(target, back)
    if not trusted:
        after = {each: LOGIN.sub("admin", text) for each, text in after.items()}
        is_privileged = any("OWNER TO admin" in text for text in before.values())
        assert any(each.startswith("owners: ") for each in report.not_set) is is_privileged, report.not_set
    differs = differing(before, after)
    assert differs == {each for each in named if not each.startswith(NO_SCHEMA)}, {
        each: (before.get(each), after.get(each)) for each in differs | named
    }
    belongs = differing(properties(found.source, found.database), properties(target, back))
    assert belongs == {of_database(each) for each in named if each.startswith("DATABASE ")}, report.failed
    assert differing(rows(found.source, found.database), rows(target, back)) == rows_named(report), report.failed


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
