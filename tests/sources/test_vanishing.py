"""A source that vanishes in mid-backup is let go after a grace; one that is only slow is not."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jobs.handlers import Run
from jobs.outcomes import Unavailable
from sources.availability import answers, liveness
from sources.availability.answers import Answer
from sources.availability.liveness import LivenessMonitor, Silence
from sources.backups.handler import copy_source
from sources.engines import engine_for
from sources.engines.base import EngineProgress, EngineResult, Verdict
from sources.models import Policy, Repository, Source
from sources.planning import BACKUPS
from tests.sources.engines.peers import PASSWORD, task_for
from tests.sources.factories import claimed_for, make_assignment, make_policy
from tests.sources.hosts import Host, Hosts
from tests.waiting import PATIENCE, eventually

LAPTOP = Source(name="laptop", kind="sftp", address="192.0.2.1")
SILENT, THERE = Answer(False, "192.0.2.1:22 did not answer"), Answer(True, "192.0.2.1:22 answered")
NEVER = threading.Event()


class TestSilence:
    """Seconds on a clock that stands still."""

    def test_a_source_that_gets_on_is_not_asked(self) -> None:
        silence = Silence(grace=60, alive_at=0)
        silence.gets_on(100)
        assert silence.seconds_until_question(104) == 6
        assert silence.seconds_until_question(110) == 0
        assert silence.seconds_until_question(500) == 0

    def test_the_grace_begins_with_the_question_that_was_left_unanswered(self) -> None:
        silence = Silence(grace=60, alive_at=0)
        silence.stays_silent(asked_at=10)
        silence.stays_silent(asked_at=13)
        assert not silence.is_over(69.9)
        assert silence.is_over(70)

    @pytest.mark.parametrize("what", ["an answer", "progress"])
    def test_any_sign_of_life_gives_it_the_whole_grace_again(self, what: str) -> None:
        silence = Silence(grace=60, alive_at=0)
        silence.stays_silent(asked_at=10)
        silence.gets_on(65)
        assert not silence.is_over(1000)
        silence.stays_silent(asked_at=75)
        assert not silence.is_over(134)
        assert silence.is_over(135)

    def test_progress_while_a_question_is_under_way_answers_it(self) -> None:
        silence = Silence(grace=0, alive_at=0)
        silence.gets_on(12)
        silence.stays_silent(asked_at=10)
        assert not silence.is_over(20)

    def test_a_silent_source_is_asked_again_soon_and_at_the_end_of_its_grace(self) -> None:
        silence = Silence(grace=60, alive_at=0)
        silence.stays_silent(asked_at=10)
        assert silence.seconds_until_question(20) == 3
        assert silence.seconds_until_question(69) == 1
        assert silence.seconds_until_question(75) == 0

    def test_without_a_grace_the_first_silence_is_the_end(self) -> None:
        silence = Silence(grace=0, alive_at=0)
        assert not silence.is_over(100)
        silence.stays_silent(asked_at=10)
        assert silence.is_over(10)


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

    async def __call__(self, source: Source, timeout: float) -> Answer:
        self.asked.append((source.name, timeout))
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


class Clock:
    """Stands still."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def monitor(
    ask: Any, *, stop: Any = NEVER, grace: float = 0.2, connect_timeout: float = 60, **more: Any
) -> LivenessMonitor:
    return LivenessMonitor(
        LAPTOP, Policy(vanish_grace=grace, connect_timeout=connect_timeout), stop=stop, ask=ask, **more
    )


@pytest.mark.usefixtures("_impatient")
class TestLivenessMonitor:
    def test_a_silent_source_has_vanished_after_its_grace(self) -> None:
        began_at = time.monotonic()
        with monitor(Neighbour(SILENT), grace=0.5) as watch:
            eventually(watch.stop.is_set)
            assert watch.vanished
            assert watch.said == SILENT.said
            assert time.monotonic() - began_at >= 0.6

    def test_a_slow_one_has_not(self) -> None:
        neighbour = Neighbour(THERE)
        with monitor(neighbour, grace=0) as watch:
            eventually(lambda: len(neighbour.asked) > 3)
            assert not watch.stop.is_set()
        assert not watch.vanished
        assert watch.said == ""

    def test_one_that_answers_again_has_not(self) -> None:
        neighbour = Neighbour(SILENT, THERE)
        with monitor(neighbour, grace=0.5) as watch:
            eventually(lambda: len(neighbour.asked) > 8)  # for 0.8 s at least
        assert watch.said == SILENT.said
        assert not watch.vanished

    def test_one_that_gets_on_is_not_even_asked(self) -> None:
        neighbour, clock = Neighbour(SILENT), Clock()
        with monitor(neighbour, grace=0, clock=clock) as watch:
            progress = watch.watching(lambda _: None)
            for number in range(100):
                progress(EngineProgress(number, 100, 0))
                clock.now += 0.09
                time.sleep(0.005)
                assert not watch.stop.is_set()
        assert neighbour.asked == []

    def test_an_engine_that_repeats_its_figures_does_not_get_on(self) -> None:
        seen: list[EngineProgress] = []
        with monitor(Neighbour(SILENT), grace=0) as watch:
            progress = watch.watching(seen.append)
            while not watch.stop.is_set():
                progress(EngineProgress(1, 2, 3))
                time.sleep(0.01)
        assert watch.vanished
        assert seen[:2] == [EngineProgress(1, 2, 3)] * 2

    def test_the_stop_of_the_run_stops_it_too(self) -> None:
        of_run = threading.Event()
        with monitor(Neighbour(THERE), stop=of_run) as watch:
            assert not watch.stop.is_set()
            of_run.set()
            assert watch.stop.is_set()
        assert not watch.vanished

    def test_it_does_not_wait_longer_for_an_answer_than_a_source_that_was_there_needs(self) -> None:
        for connect_timeout, timeout in ((60, 10), (2, 2)):
            neighbour = Neighbour(THERE)
            with monitor(neighbour, connect_timeout=connect_timeout):
                eventually(lambda asked=neighbour.asked: asked)
            assert neighbour.asked[0] == ("laptop", timeout)

    def test_it_ends_in_mid_question(self) -> None:
        asking = threading.Event()

        async def hang(source: Source, timeout: float) -> Answer:
            asking.set()
            await asyncio.sleep(3600)
            return SILENT

        with monitor(hang) as watch:
            assert asking.wait(PATIENCE)
        assert "liveness-laptop" not in [thread.name for thread in threading.enumerate()]
        assert not watch.vanished

    def test_it_leaves_no_thread_behind(self) -> None:
        before = threading.enumerate()
        for _ in range(20):
            with monitor(Neighbour(SILENT), grace=1000):
                pass
        assert [thread for thread in threading.enumerate() if thread not in before] == []

    def test_a_question_that_breaks_ends_no_copy(self, caplog: pytest.LogCaptureFixture) -> None:
        questions = []

        async def break_down(source: Source, timeout: float) -> Answer:
            questions.append(source)
            raise RuntimeError("a defect")

        with monitor(break_down, grace=0) as watch:
            eventually(lambda: len(questions) > 1)
        assert not watch.vanished
        assert "its copy goes on" in caplog.text

    def test_an_error_of_the_engine_passes_through_it(self) -> None:
        with pytest.raises(KeyError), monitor(Neighbour(THERE)):
            raise KeyError


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    made = Hosts(tmp_path / "hosts")
    yield made
    made.end()


@pytest.mark.slow
@pytest.mark.usefixtures("_impatient")
class TestRealCopies:
    """rclone copies 6 MB at 1 MB a second from a real host, which is frozen in the middle."""

    def copy(
        self, host: Host, destination: Path, grace: float, meanwhile: Callable[[LivenessMonitor], None]
    ) -> tuple[EngineResult, LivenessMonitor]:
        """Copy; once data flows, `meanwhile` is called in another thread."""
        moved = threading.Event()

        def listen(progress: EngineProgress) -> None:
            if progress.bytes_done and not moved.is_set():
                moved.set()
                threading.Thread(target=meanwhile, args=[watch], daemon=True).start()

        task = task_for(host.specification(), destination, options={"bwlimit": "1M"})
        policy = Policy(vanish_grace=grace, connect_timeout=0.5)
        with LivenessMonitor(host.source(), policy, stop=NEVER) as watch:
            result = engine_for("sftp").run(task, on_progress=watch.watching(listen), stop=watch.stop)
        assert moved.is_set()
        return result, watch

    def host(self, hosts: Hosts) -> Host:
        host = hosts()
        (host.directory / "film").write_bytes(bytes(6_000_000))
        return host.come()

    def test_a_host_that_freezes_is_let_go_after_the_grace(self, hosts: Hosts, tmp_path: Path) -> None:
        host = self.host(hosts)
        result, watch = self.copy(host, tmp_path / "copy", grace=1.0, meanwhile=lambda _: host.freeze())
        assert watch.vanished
        assert result.verdict is Verdict.STOPPED
        assert watch.said == f"{host.address}:{host.port} did not answer within 0.5 s"
        assert host.is_there  # its system accepts connections all the time

    def test_a_host_that_thaws_in_time_is_copied_to_the_end(self, hosts: Hosts, tmp_path: Path) -> None:
        host = self.host(hosts)

        def doze(watch: LivenessMonitor) -> None:
            host.freeze()
            eventually(lambda: watch.said)
            host.thaw()

        result, watch = self.copy(host, tmp_path / "copy", grace=60, meanwhile=doze)
        assert not watch.vanished
        assert result.verdict is Verdict.SUCCEEDED
        assert result.size == 6_000_000

    def test_a_host_that_loses_its_power_ends_the_copy(self, hosts: Hosts, tmp_path: Path) -> None:
        host = self.host(hosts)
        result, watch = self.copy(host, tmp_path / "copy", grace=60, meanwhile=lambda _: host.go())
        assert (watch.vanished, result.verdict) == (False, Verdict.UNAVAILABLE)  # its engine noticed by itself
        assert not answers.ask_now(host.source(), 1).present


@pytest.mark.promise
@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("_impatient")
def test_a_backup_whose_host_freezes_is_no_failure(
    hosts: Hosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BACKUP_SECRET_LAPTOP", PASSWORD)
    (tmp_path / "vault").mkdir()
    repository = Repository.objects.create(name="vault", location=str(tmp_path / "vault"))
    host = hosts()
    (host.directory / "film").write_bytes(bytes(6_000_000))
    source = host.come().source(secret="env:BACKUP_SECRET_LAPTOP")
    source.save()
    policy = make_policy(repository=repository, vanish_grace=0.5, connect_timeout=0.5, engine_options={"bwlimit": "1M"})
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
