"""`manage.py backlog log`: what was done to a source, and which claims considered it, as an operator asks for it."""

import json
import os
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from jobs import decisions
from jobs.clock import database_clock
from jobs.models import Decision
from operations.considerations import consider
from sources import planning
from sources.models import Assignment
from tests.commands import command
from tests.factories import NOON, make_claimed, make_record, make_worker
from tests.jobs.worker_processes import database_url
from tests.sources.factories import make_assignment, make_policy, make_source
from tests.waiting import PATIENCE, eventually

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _at_noon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleet.management.backlog.log.database_clock", lambda: NOON)


@pytest.fixture
def laptop() -> Assignment:
    return make_assignment(make_policy(), make_source(name="laptop-1"))


def add_line(text: str, subject: str = "", minutes: float = -10, **fields: Any) -> Decision:
    at = NOON + timedelta(minutes=minutes)
    return Decision.objects.create(text=text, what="answered", kind="backup", subject=subject, at=at, **fields)


def log(*arguments: str) -> list[str]:
    return run(*arguments).splitlines()


run, refused = command("backlog log")


class TestWhichLines:
    def test_all_lines_of_the_last_day_are_told_oldest_first(self) -> None:
        add_line("second", minutes=-5)
        add_line("first", minutes=-60)
        add_line("too old", minutes=-60 * 25)
        assert log() == ["2026-03-02 11:00:00  answered      first", "2026-03-02 11:55:00  answered      second"]

    def test_a_source_has_its_own_lines_those_of_its_assignments_and_of_its_policies(self, laptop: Assignment) -> None:
        other = make_assignment(laptop.policy)
        stranger = make_assignment()
        add_line("assigned", planning.subject_of(laptop.pk))
        add_line("paused", planning.subject_of_source(laptop.source_id))
        add_line("emitted", planning.subject_of_policy(laptop.policy_id))
        add_line("other's", planning.subject_of(other.pk))
        add_line("stranger's", planning.subject_of_policy(stranger.policy_id))
        assert [line.split()[-1] for line in log("laptop-1")] == ["assigned", "paused", "emitted"]
        weekly = make_assignment(make_policy(), laptop.source)
        add_line("weekly", planning.subject_of(weekly.pk))
        assert [line.split()[-1] for line in log("laptop-1", "--policy", str(weekly.policy))] == ["paused", "weekly"]
        bound, *lines = command("backlog log", with_errors=True)[0]("--limit", "2").splitlines()
        assert [line.split()[-1] for line in lines] == ["stranger's", "weekly"]
        assert "the latest 2 lines" in bound

    @pytest.mark.parametrize(
        ("since", "until", "expected"),
        [
            ("30m", None, ["late"]),
            ("2026-03-02T10:30", "2026-03-02T11:30", ["early"]),
            ("1d", "2026-03-02T11:00:00", []),
        ],
    )
    def test_it_begins_and_ends_when_it_is_told(self, since: str, until: str | None, expected: list[str]) -> None:
        add_line("early", minutes=-60)
        add_line("late", minutes=-20)
        arguments = ["--since", since] + (["--until", until] if until else [])
        if expected:
            assert [line.split()[-1] for line in log(*arguments)] == expected
        else:
            refused(*arguments, code=1)


class TestConsidering:
    @pytest.fixture
    def claim(self, laptop: Assignment) -> None:
        """The log of three claimed sources: the laptop was second, after a never backed up one; another was left."""
        before = make_claimed(subject="assignment:900000000", payload={"title": "first-one"}, priority=5, kind="backup")
        taken = make_claimed(subject=planning.subject_of(laptop.pk), payload={"title": "laptop-1"}, kind="backup")
        after = make_claimed(
            subject="assignment:900000001", payload={"title": "long"}, expected_seconds=600.0, kind="backup"
        )
        add = {"queue": "availability", "kind": "backup", "inserted_at": NOON}
        make_record(subject="assignment:900000002", payload={"title": "longer"}, expected_seconds=900.0, **add)
        moment = NOON - timedelta(minutes=5)
        consider("availability", [before, taken, after], wanted=3, worker_id=make_worker().pk, now=moment)

    @pytest.mark.usefixtures("claim")
    def test_it_names_the_rank_and_the_key_that_put_it_before_or_after_another(self, laptop: Assignment) -> None:
        refused("laptop-1", code=1)  # claims are asked for
        [line] = log("laptop-1", "--considering")
        assert line.endswith("| laptop-1 was claimed at rank 2, before long: a shorter last duration, or none yet")
        left = Assignment.objects.create(pk=900_000_002, policy=laptop.policy, source=make_source(name="longer"))
        [line] = log(left.source.name, "--considering")
        assert line.endswith("| longer was left at rank 4, after long: a shorter last duration, or none yet")
        make_assignment(laptop.policy, make_source(name="laptop-2"))  # no claim looked at it
        add_line("emitted", planning.subject_of_policy(laptop.policy_id), minutes=-6)
        assert [line.split()[-1] for line in log("laptop-2", "--considering")] == ["emitted"]
        assert [line.split()[2] for line in log("laptop-1", "--considering")] == ["answered", "claimed"]


class TestJson:
    def test_each_line_is_an_object(self, laptop: Assignment) -> None:
        subject = planning.subject_of(laptop.pk)
        decisions.log("answered", "it läuft", kind="backup", subject=subject, facts={"after": 1.5}, now=NOON)
        [line] = log("laptop-1", "--json")
        assert json.loads(line) == {
            "at": "2026-03-02T12:00:00+00:00", "level": "doing", "what": "answered", "text": "it läuft",
            "kind": "backup", "queue": "", "subject": subject, "record_id": None, "worker_id": None,
            "facts": {"after": 1.5},
        }  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["laptop1"], "there is no source 'laptop1'; did you mean 'laptop-1'?"),
        (["--since", "yesterday"], "'yesterday' is not an instant; write 24h"),
        (["--follow", "--until", "1h"], "leave out --until"),
    ],
)
def test_what_makes_no_sense_is_refused_with_an_example(laptop: Assignment, arguments: list[str], message: str) -> None:
    assert message in refused(*arguments)
    text = refused(code=1)
    assert text.startswith("nothing was logged")
    assert "kept for 14 days" in text


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_following_tells_each_new_line_once_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    decisions.log("answered", "before it began")
    out, err = tmp_path / "out", tmp_path / "err"
    argv = [sys.executable, str(settings.BASE_DIR / "manage.py"), "backlog", "log", "--follow"]
    environment = {**os.environ, "DATABASE_URL": database_url(), "DJANGO_SETTINGS_MODULE": "tests.settings"}
    with (
        out.open("wb") as printed,
        err.open("wb") as complained,
        subprocess.Popen(argv, env=environment, stdout=printed, stderr=complained) as process,
    ):
        try:
            eventually(lambda: "before it began" in out.read_text())
            decisions.log("began", "while it looked", now=database_clock() - timedelta(seconds=20))  # committed late
            eventually(lambda: "while it looked" in out.read_text())
            decisions.log("began", "and again")
            eventually(lambda: "and again" in out.read_text())
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()
    assert "Traceback" not in err.read_text()
    assert [line.split("  ")[-1].strip() for line in out.read_text().splitlines()] == [
        "before it began", "while it looked", "and again",
    ]  # fmt: skip
