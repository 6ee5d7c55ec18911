"""Copies between two restic repositories, each with a key of its own, that are killed, locked, full or damaged: no half
of a point is there, and the next one finishes."""

import json
import os
import random
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from engines.at_repositories import point_upkeep, questions
from engines.base import Verdict
from storage.places.identity import Identity, digest_of
from storage.places.location import RESTIC, Location
from storage.places.locks import Busy
from storage.points import lost_results, runs
from storage.points.store import StorageFailed
from storage.restic.copying import MOST_LEFT_OUT
from storage.restic.program import Restic
from storage.restic.snapshots import note_incomplete
from storage.restoring import into_folder
from storage.restoring.base import Wish
from storage.stores import store_of
from tests.engines.peers import STARTED_AT, local_folder, small_disk
from tests.engines.restic_keys import make_quick
from tests.engines.restic_runs import (
    FOLDER,
    MADE,
    MIB,
    back_up,
    contents,
    fill,
    frozen_prune,
    killing,
    location_at,
    restic_task,
)
from tests.programs import needs_restic

pytestmark = [pytest.mark.slow, needs_restic]

OTHER_KEY = "fedcba9876543210" * 4
SECOND = Identity("2b9c", "offsite", True, digest_of(OTHER_KEY), format=RESTIC)


@dataclass
class Pair:
    """A source, its first repository, and the copy; what each point has to be."""

    home: Path
    day: int = 0
    expected: dict[str, dict[bytes, Any]] = field(default_factory=dict)

    @property
    def source(self) -> Path:
        return self.home / "source"

    @property
    def first(self) -> Location:
        return location_at(self.home / "first")

    @property
    def second(self) -> Location:
        return location_at(self.home / "second", OTHER_KEY)

    def back_up(self, files: int = 1, size: int = 1_000) -> str:
        fill(self.source, files, size)
        self.day += 1
        at = STARTED_AT + timedelta(days=self.day)
        result = back_up(restic_task(local_folder(self.source), self.first, started_at=at))
        assert result.verdict is Verdict.SUCCEEDED, result
        point = result.snapshot.partition("/")[0]
        self.expected[point] = contents(self.source)
        return point

    def spoilt(self) -> tuple[str, Callable[[], object]]:
        """A point whose largest file is damaged then, and what mends that."""
        before = {*(self.home / "first/restic").glob("data/*/*")}
        point = self.back_up()
        new = {*(self.home / "first/restic").glob("data/*/*")} - before
        file = max(new, key=lambda each: each.stat().st_size)  # the other one holds its folders
        content = file.read_bytes()
        file.chmod(0o600)
        file.write_bytes(content[:50] + b"damaged" + content[57:])
        return point, lambda: file.write_bytes(content)

    def copied(self, to: Location | None = None, **changed: Any) -> dict[str, Any]:
        order = {"ours": asdict(SECOND), "made": True, "newest": max(self.expected), "again": [], "damaged": {}}
        target = (to or self.second).as_json()
        order |= {"bandwidth": "", "zone": "UTC"}
        usual = order | {"reserve": 0.0, "location": self.first.as_json(), "folder": FOLDER}
        return point_upkeep.copy_points(**usual | {"target": target} | changed)

    def points(self, location: Location | None = None) -> list[str]:
        return runs.points(store_of(location or self.second, threading.Event()), FOLDER)

    def assert_whole(self) -> None:
        """Each point of the copy comes back byte for byte, from the copy alone."""
        store = store_of(self.second, threading.Event())
        for point in self.points():
            target = self.home / "back" / f"{self.day}-{len(os.listdir(self.home))}-{point}"
            assert into_folder.restore(Wish(FOLDER, point, target), store, self.home / "cache").failed == []
            assert contents(target) == self.expected[point]


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    made = Pair(tmp_path)
    made.back_up(3)
    (tmp_path / "second").mkdir()
    assert questions.make_repository(made.second.as_json(), asdict(SECOND), made.first.as_json()) == MADE
    make_quick(tmp_path / "second/restic", OTHER_KEY)
    return made


def test_what_is_killed_locked_full_damaged_or_of_another_key_makes_no_half_point(pair: Pair, tmp_path: Path) -> None:
    first, second = (tmp_path / each / "restic" for each in ("first", "second"))
    polynomials = {polynomial_of(each) for each in (pair.first, pair.second)}
    assert len(polynomials) == 1, "equal data that is backed up to both lies there once"
    for location, repository in ((pair.first, first), (pair.second, second)):
        with frozen_prune(location, repository / "locks"), pytest.raises(Busy, match="another restic works in"):
            pair.copied()
    pair.back_up(3, 2 * MIB)
    with killing("copy", lambda: any(second.glob("data/*/*"))):
        done = pair.copied(bandwidth="4M")
    assert (done["points"], done["wrong"]) == (pair.points(), []), "it goes on by itself"
    pair.assert_whole()
    assert list(second.glob("locks/*")), "a killed restic leaves its lock"
    wrong, digest = location_at(tmp_path / "second", "f" * 64), digest_of("f" * 64)
    assert "the key is not the one" in pair.copied(to=wrong, ours=asdict(replace(SECOND, key_digest=digest)))["problem"]
    assert "of the second repository: the key is not that" in pair.copied(to=wrong)["problem"]
    pair.back_up(1, 2 * MIB)
    with full(tmp_path / "second"):
        assert "no space is left" in pair.copied()["problem"]
        assert pair.points() == list(pair.expected)[:-1]
    pair.spoilt()
    note_incomplete(Restic(pair.first, threading.Event()), FOLDER, max(pair.expected), ["letter: Permission denied"])
    pair.back_up(1, 1_001)
    note_incomplete(Restic(pair.first, threading.Event()), FOLDER, max(pair.expected), ["letter: Permission denied"])
    done = pair.copied()
    *_, damaged, _ = pair.expected
    assert (done["new"], done["wrong_files"]) == (pair.points()[-2:], 1)
    text = f"point {damaged} is left out of the copy: the repository's contents are damaged (ciphertext verification"
    assert text in done["wrong"][0]
    pair.assert_whole()
    store = store_of(pair.second, threading.Event())
    assert [each["complete"] for each in lost_results.unrecorded(store, FOLDER, [])] == [True, True, True, False]
    removed = point_upkeep.remove_folder(pair.second.as_json(), FOLDER, asdict(SECOND))
    left = [each.name for each in (second / "snapshots").iterdir() if "-tmp-" not in each.name]  # of the killed restic
    assert (len(removed["points"]), left) == (4, [])


def test_what_is_damaged_is_tried_again_and_named_until_it_comes_and_costs_the_rest_nothing(pair: Pair) -> None:
    """So many that one run does not try all of them."""
    pair.copied()
    spoilt = dict(pair.spoilt() for _ in range(MOST_LEFT_OUT + 3))
    damaged = list(spoilt)
    pair.back_up()
    done = pair.copied()
    assert (done["new"], done["wrong_files"]) == ([max(pair.expected)], MOST_LEFT_OUT)
    assert done["untried"] == damaged[MOST_LEFT_OUT:]
    pair.back_up()
    done = pair.copied(again=damaged)
    assert done["new"] == [max(pair.expected)]
    assert named(done) == damaged
    assert (done["wrong_files"], len(done["untried"])) == (MOST_LEFT_OUT, 3), "so long does it take at most"
    others = (pair.copied(again=damaged)["untried"] for _ in range(20))
    assert any(each != done["untried"] for each in others), "each has its turn"
    gone, *rest = damaged
    point_upkeep.remove_points(
        pair.first.as_json(), FOLDER, points=[gone], stay=[each for each in pair.expected if each != gone]
    )
    for point in rest[1:]:
        spoilt[point]()
    pair.copied(again=damaged)
    done = pair.copied(again=damaged)
    assert (named(done), pair.points()) == (rest[:1], [each for each in pair.expected if each not in damaged[:2]])
    assert "is left out of the copy: the repository's contents are damaged" in done["wrong"][0]
    spoilt[rest[0]]()
    done = pair.copied(again=damaged)
    assert (named(done), done["new"]) == ([], rest[:1])
    pair.assert_whole()


def named(done: dict[str, Any]) -> list[str]:
    """The points that it says are not there."""
    return sorted([*done["untried"], *(each.split()[1] for each in done["wrong"])])


@pytest.mark.parametrize("seed", [1])
def test_after_any_sequence_each_point_of_the_copy_comes_back(seed: int, pair: Pair) -> None:
    rng = random.Random(seed)

    def remove(location: Location) -> None:
        if len(points := pair.points(location)) > 1:
            order = {"location": location.as_json(), "folder": FOLDER}
            with suppress(StorageFailed), killed_sometimes("forget", "prune"):
                point_upkeep.remove_points(points=points[:1], stay=points[1:], **order)
                point_upkeep.prune(**order)

    def copy() -> None:
        with killed_sometimes("copy"):
            pair.copied()

    @contextmanager
    def killed_sometimes(*verbs: str) -> Iterator[None]:
        at = time.monotonic() + rng.uniform(0, 0.4)
        with killing(rng.choice(verbs), lambda: time.monotonic() > at) if rng.random() < 0.5 else nullcontext():
            yield

    steps = [lambda: pair.back_up(rng.randint(1, 3), rng.choice((10, 2 * MIB))), copy, copy]
    steps += [lambda: remove(pair.first), lambda: remove(pair.second)]
    for _ in range(5):
        rng.choice(steps)()
        assert {*pair.points()} <= {*pair.expected}
    pair.back_up()
    assert pair.copied()["points"][-1] == max(pair.expected)
    pair.assert_whole()


@contextmanager
def full(folder: Path) -> Iterator[None]:
    """Move this folder to a disk that has no room for more."""
    with small_disk(folder.with_name("disk"), 16 * MIB) as disk:
        shutil.move(folder, disk / "here")
        folder.symlink_to(disk / "here")
        with (disk / "filler").open("wb") as filler, suppress(OSError):
            while True:
                filler.write(bytes(MIB // 4))
        with (disk / "filler").open("r+b") as filler:
            filler.truncate(os.stat(filler.name).st_size - MIB)  # for locks
        yield
        folder.unlink()
        shutil.move(disk / "here", folder)


def polynomial_of(location: Location) -> str:
    """By which restic cuts files into pieces."""
    lines: list[str] = []
    Restic(location, threading.Event()).run("cat", "config", on_line=lines.append)
    return str(json.loads("".join(lines))["chunker_polynomial"])
