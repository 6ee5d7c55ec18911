"""Whatever becomes of a source, and whatever is killed: every point restores to the tree that its backup saw."""

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.engines.histories import History
from tests.engines.history_steps import Backup, Check, Copy, Removal, Restore, Step
from tests.engines.locations import SERVED, location_of

KINDS = ("plain", "encrypted", "folding", "decomposes", *SERVED)
LONG = "n" * 200
PATHS = ("a", "A", "a/b", "A/b", "F/x", "f/x", "f/y", "é", "e\u0301", "é/z", "e\u0301/z", LONG, f"s/{LONG}/t", "dot./x")
CONTENTS = (b"one", b"two", b"six", b"eleven", b"")

paths = st.sampled_from(PATHS)
files = st.tuples(st.just("file"), paths, st.sampled_from(CONTENTS))
others = st.one_of(
    st.tuples(st.sampled_from(("gone", "folder")), paths, st.none()),
    st.tuples(st.just("link"), paths, st.sampled_from(("a", "../out", "nowhere"))),
    st.tuples(st.just("hard"), paths, paths),
)
seldom = st.sampled_from((False,) * 5 + (True,))
kills = st.none() | st.integers(0, 9) | st.integers(0, 26)
numbers = st.frozensets(st.integers(0, 12), max_size=6)
backups = st.builds(
    Backup,
    edits=st.lists(files | files | others, min_size=1, max_size=6),
    kill=kills,
    is_cut=st.booleans(),
    pieces=numbers,
    away=st.just(frozenset()) | st.frozensets(st.integers(0, 12), max_size=2),
    damage=st.sampled_from((None,) * 6 + (0, 3)),
    overtaken=seldom,
)
steps = st.one_of(
    backups,
    backups,
    backups,
    st.builds(
        Removal, points=st.frozensets(st.integers(0, 3), min_size=1), kill=kills, is_cut=st.booleans(),
        of_the_copy=st.booleans(),
    ),
    st.builds(Copy, kill=kills, is_cut=st.booleans()),
    st.builds(Check, kill=kills, is_cut=st.booleans(), of_the_copy=st.booleans()),
    st.builds(Restore, point=st.integers(0, 4), kill=kills),
)  # fmt: skip
FIRST = Backup([("file", each, CONTENTS[number % 3]) for number, each in enumerate(PATHS)])
MORE = [("file", f"more/{number}", b"some") for number in range(4)]
OTHER = [("file", f"other/{number}", b"other") for number in range(2)]
AFTER_BRINGING, BEFORE_THE_MANIFEST = 5, 9
"""Steps of a run on a plain folder, that takes over from a point and has one list to bring."""
EACH_FAULT: list[Step] = [
    Backup(MORE, kill=AFTER_BRINGING, pieces=frozenset({0, 1})),
    Backup([("gone", "F/x", None)]),
    Backup(OTHER, kill=BEFORE_THE_MANIFEST, is_cut=True),
    Backup([("file", "F/x", b"now")]),
    Backup([(what, name, b"more") for what, name, _ in MORE], kill=AFTER_BRINGING, is_cut=True),
    Backup([("file", "f/x", b"new"), ("file", "F/x", b"old")]),
    Backup([("file", name, b"changed") for name in ("A/b", "a/b", "new")], away=frozenset({0, 1, 2, 3, 6, 7})),
    Backup([("link", "f/y", "x"), ("hard", "F/z", "F/x")]),
    Copy(),
    Backup([("file", "f/x", b"newer")], overtaken=True),
    Removal(frozenset({0}), kill=9, is_cut=True),
    Copy(),
    Removal(frozenset({0, 1}), kill=7, of_the_copy=True),
    Check(kill=6),
    Restore(1, kill=3),
    Backup([("file", "f/x", b"newest")], damage=0),
    Check(),
]
AT_LAST = (Removal(frozenset({0, 2, 3})), Removal(frozenset({1}), of_the_copy=True))
"""Points that will go are examined before, and all that stay afterwards."""
MANY = int(os.environ.get("BACKUPSCHED_HISTORIES", "0"))
drawn = settings(
    derandomize=not MANY, max_examples=MANY or 2, suppress_health_check=list(HealthCheck), phases=[Phase.generate],
    print_blob=True,
)  # fmt: skip


def play(kind: str, story: list[Step], *, often: bool = False) -> None:
    """`often`: every point is restored after each step, not only at the end."""
    with TemporaryDirectory() as folder, location_of(kind, Path(folder, "repository")) as location:
        history = History(Path(folder), location)
        with history.stepped():
            for step in (FIRST, *story, Backup([("file", "last", b"last")])):
                result = history.play(step)
                if often:
                    history.check()
                elif result is not None and result.snapshot:
                    history.check(only=[result.snapshot])
            history.play(Copy())
            history.check(only=[each for step in AT_LAST for each in history.chosen(step)])
            for step in AT_LAST:
                history.play(step)
            history.check_nothing_else_stays()
            history.check()


@pytest.mark.parametrize(
    "kind", ["plain", *(pytest.param(each, marks=[pytest.mark.slow, pytest.mark.long]) for each in SERVED)]
)
def test_a_history_with_each_fault_leaves_every_point_whole(kind: str) -> None:
    play(kind, EACH_FAULT)


@pytest.mark.slow
@pytest.mark.timeout(600 + 120 * MANY)
@pytest.mark.parametrize("kind", KINDS if MANY else KINDS[: -len(SERVED)])
@drawn
@given(story=st.lists(steps, min_size=3, max_size=5))
def test_every_point_of_every_kind_of_repository_restores(kind: str, story: list[Step]) -> None:
    play(kind, story, often=kind == "plain")
