"""A source that vanishes in mid-backup is let go after a grace; one that is only slow is not."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from backups.copying.handler import copy_source
from engines.base import EngineProgress
from jobs.handlers import Run
from jobs.outcomes import Unavailable
from sources.availability import liveness
from sources.availability.liveness import LivenessMonitor, Silence
from sources.availability.probes import Answer
from sources.models import Policy, Source
from sources.planning import BACKUPS
from tests.engines.peers import PASSWORD
from tests.sources.factories import claimed_for, make_assignment, policy_into
from tests.sources.hosts import Hosts
from tests.waiting import PATIENCE, eventually

LAPTOP = Source(name="laptop", kind="sftp", address="192.0.2.1")
SILENT, THERE = Answer(False, "192.0.2.1:22 did not answer"), Answer(True, "192.0.2.1:22 answered")
NEVER = threading.Event()


def test_the_grace_begins_with_the_question_that_was_left_unanswered() -> None:
    silence = Silence(grace=60, alive_at=0)
    silence.note_silence(asked_at=10)
    assert silence.seconds_until_question(20) == 3
    assert [silence.seconds_until_question(at) for at in (69, 69.75, 71)] == [1, 0.25, 0]
    assert not silence.is_over(69.9)
    assert silence.is_over(70)
    silence.note_progress(71)  # an answer or progress: the whole grace again
    assert silence.seconds_until_question(75) == 6
    assert not silence.is_over(1000)
    silence.note_silence(asked_at=70)  # a question that was under way when it got on
    assert not silence.is_over(1000)
    silence.note_silence(asked_at=81)
    assert (silence.is_over(140), silence.is_over(141)) == (False, True)


@pytest.fixture
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Monitors that look after a tenth of a second."""
    monkeypatch.setattr(liveness, "LOOK_AFTER_SECONDS", 0.1)
    monkeypatch.setattr(liveness, "ASK_AGAIN_SECONDS", 0.05)


class Neighbour:
    """Asked, it answers what it was told to, in turn; the last answer again and again. Counts the questions."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, float]] = []

    def __call__(self, source: Source, timeout: float) -> Answer:
        self.asked.append((source.name, timeout))
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


class Clock:
    """Goes on by `step` seconds each time that it is read."""

    def __init__(self, step: float = 0.0) -> None:
        self.now, self.step = 0.0, step

    def __call__(self) -> float:
        self.now += self.step
        return self.now


def monitor(
    ask: Any, *, stop: Any = NEVER, grace: float = 0.2, connect_timeout: float = 60, **more: Any
) -> LivenessMonitor:
    return LivenessMonitor(
        LAPTOP, Policy(vanish_grace=grace, connect_timeout=connect_timeout), stop=stop, ask=ask, **more
    )


@pytest.mark.usefixtures("_impatient")
class TestLivenessMonitor:
    def test_a_silent_source_has_vanished_after_its_grace_though_its_engine_repeats_its_figures(self) -> None:
        began_at, seen = time.monotonic(), list[EngineProgress]()
        with monitor(Neighbour(SILENT), grace=0.5) as watch:
            progress = watch.watching(seen.append)
            while not watch.is_set():
                progress(EngineProgress(1, 2, 3))
                time.sleep(0.01)
            assert (watch.vanished, watch.silence) == (True, SILENT.text)
            assert time.monotonic() - began_at >= 0.6
        assert seen[:2] == [EngineProgress(1, 2, 3)] * 2

    def test_one_that_answers_again_has_not(self) -> None:
        neighbour, clock = Neighbour(SILENT, THERE), Clock(step=0.02)  # a machine that stands still is no silence
        with monitor(neighbour, grace=0.5, clock=clock) as watch:
            eventually(lambda: len(neighbour.asked) > 8)
        assert clock.now > 0.5
        assert watch.silence == SILENT.text
        assert not watch.vanished
        assert neighbour.asked[0] == ("laptop", 10)  # it was there a moment ago: no 60 s

    def test_one_that_gets_on_is_not_even_asked(self) -> None:
        neighbour, clock = Neighbour(SILENT), Clock()
        with monitor(neighbour, grace=0, clock=clock) as watch:
            progress = watch.watching(lambda _: None)
            for number in range(100):
                progress(EngineProgress(number, 100, 0))
                clock.now += 0.09
                time.sleep(0.005)
                assert not watch.is_set()
        assert neighbour.asked == []

    def test_the_stop_of_the_run_and_the_close_of_its_window_stop_it_too(self) -> None:
        of_run = threading.Event()
        with monitor(Neighbour(THERE), stop=of_run) as watch, monitor(Neighbour(THERE), closes_in=0.01) as closing:
            eventually(closing.is_set)
            assert not watch.is_set()
            of_run.set()
            assert watch.is_set()
        assert (closing.closed, closing.vanished, watch.closed, watch.vanished) == (True, False, False, False)

    def test_the_block_ends_in_mid_question_and_the_answer_counts_no_more(self) -> None:
        asking, go_on, answered = threading.Event(), threading.Event(), threading.Event()

        def hang(source: Source, timeout: float) -> Answer:
            asking.set()
            go_on.wait(PATIENCE)
            answered.set()
            return SILENT

        with monitor(hang, grace=0) as watch:
            assert asking.wait(PATIENCE)
        go_on.set()
        assert answered.wait(PATIENCE)
        eventually(lambda: "liveness-laptop" not in [thread.name for thread in threading.enumerate()])
        assert not watch.vanished

    def test_a_question_that_breaks_ends_no_copy(self, caplog: pytest.LogCaptureFixture) -> None:
        questions = []

        def break_down(source: Source, timeout: float) -> Answer:
            questions.append(source)
            raise RuntimeError("a defect")

        with monitor(break_down, grace=0) as watch:
            eventually(lambda: len(questions) > 1)
        assert not watch.vanished
        assert "its copy continues" in caplog.text


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    made = Hosts(tmp_path / "hosts")
    yield made
    made.end()


@pytest.mark.promise
@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("_impatient")
def test_a_backup_whose_host_freezes_is_no_failure(
    hosts: Hosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BACKUP_SECRET_LAPTOP", PASSWORD)
    host = hosts()
    (host.directory / "film").write_bytes(bytes(6_000_000))
    source = host.come().source(secret="env:BACKUP_SECRET_LAPTOP")
    source.save()
    policy = policy_into(tmp_path / "vault", vanish_grace=0.5, connect_timeout=0.5, engine_options={"bwlimit": "1M"})
    run = Run(claimed_for(make_assignment(policy, source), queue=BACKUPS))

    over = threading.Event()

    def freeze_in_the_middle() -> None:
        eventually(lambda: over.is_set() or list((tmp_path / "vault").rglob("film*")))
        host.freeze()

    thread = threading.Thread(target=freeze_in_the_middle, daemon=True)
    thread.start()
    outcome = copy_source(run)
    over.set()
    thread.join(PATIENCE)
    assert isinstance(outcome, Unavailable)
    assert outcome.reason.startswith("it vanished in mid-backup: ")
