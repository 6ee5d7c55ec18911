"""Assignments that will probably miss their period: foreseen from what was recorded, kept, and shown."""

import random
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.cache import cache
from django.test import Client
from django.utils import timezone

from fleet.foreseeing import at_risk, contenders
from fleet.foreseeing.habits import Habit, Today
from fleet.foreseeing.latest_look import latest_look
from fleet.foreseeing.presence import DAY, Stay
from fleet.foreseeing.runs import Contender, foresee, units_for
from jobs.backlog import hold
from jobs.states import Status
from operations.backlog.starts import QueueState, Waiter
from operations.backlog.throttling import Head
from sources.models import Assignment, Foresight, Source
from sources.planning import subject_of
from tests.commands import command
from tests.factories import make_record, make_worker
from tests.simulation.histories import answered, silent
from tests.sources.factories import MONDAY, backed_up, make_policy, make_source

HOUR = 3_600.0
WEEK = 10
NOW = MONDAY + timedelta(days=WEEK, hours=9)
"""Thursday."""


def drawn(habit: Habit, today: Today) -> list[Stay | None]:
    rng = random.Random(1)
    return [habit.draw(today, rng) for _ in range(200)]


class TestHabits:
    days = Habit([[Stay(9 * HOUR, 17 * HOUR)]] * 4 + [[]], [[]] * 4)

    def test_the_rest_of_today_is_as_that_of_earlier_days_of_its_sort(self):
        found = [each for each in drawn(self.days, Today(8 * HOUR, 2)) if each]
        assert 120 < len(found) < 170  # of five days it was there on four
        assert 8.6 * HOUR < sorted(each.from_s for each in found)[len(found) // 2] < 9.4 * HOUR
        assert not any(drawn(self.days, Today(8 * HOUR, 5)))  # no Saturday

    def test_what_is_silent_long_after_it_used_to_come_stays_away(self):
        assert sum(each is not None for each in drawn(self.days, Today(13 * HOUR, 2, silent=True))) < 20

    @pytest.mark.parametrize(("now", "come"), [(8, range(120, 170)), (9.25, range(80, 140)), (10, range(20))])
    def test_an_agent_that_has_not_checked_in_by_its_usual_hour_stays_away(self, now: float, come: range):
        found = drawn(self.days, Today(now * HOUR, 2, silent=True, reports=True))
        assert sum(each is not None for each in found) in come
        assert sum(each is not None for each in drawn(self.days, Today(now * HOUR, 2, silent=True))) > 60

    def test_what_is_there_is_there_from_now_on(self):
        found = drawn(self.days, Today(10 * HOUR, 2, seen=10 * HOUR - 60))
        assert {each and each.from_s for each in found} == {10 * HOUR}

    def test_are_the_days_of_the_stays_in_local_time(self):
        stays = [Stay(day * DAY + 9 * HOUR, day * DAY + 17 * HOUR) for day in range(7)]
        found = Habit.of(stays, 7, 22 * HOUR, 2)  # from Tuesday 22:00 UTC, a Wednesday there
        assert (len(found.week), len(found.weekend)) == (4, 2)
        assert found.week[0] == [Stay(11 * HOUR, 19 * HOUR)]
        assert Habit.of([Stay(0.0, 7 * DAY)], 7, 0.0, 0).always


def contender(number: int, habit: Habit, seconds: float = 3_000.0) -> Contender:
    waiter = Waiter(Head(0, number, 0, None, None, seconds, ""), NOW)
    return Contender(number, waiter, NOW + timedelta(hours=15), habit, Today(9 * HOUR, 3, seen=9 * HOUR), 900.0)


class TestRuns:
    def test_those_for_whom_no_unit_is_free_in_time_are_not_protected(self):
        leaves_at_ten = Habit([[Stay(8 * HOUR, 12 * HOUR)]] * 5, ())
        state = QueueState(NOW, 1, (), (), {}, {})
        given = [contender(number, leaves_at_ten) for number in range(1, 9)]

        def draw(expected: float | None, rng: random.Random) -> float:
            return expected or 0.0

        found = foresee(state, given, draw, {}, random.Random(1))
        assert [found.probability(number) > 0.5 for number in range(1, 9)] == [True] * 3 + [False] * 5
        assert found.found[1].starts == [0.0] * 21
        assert 3 <= (units_for(0.9, state, given, draw, {}, random.Random(1)) or 0) <= 8


@pytest.fixture
def fleet(db: None) -> list[Assignment]:
    """Ten days of a server that is always there, a laptop that comes at eleven, and one that has not come for days."""
    cache.clear()  # what the home page keeps; it forgets who has logged in, too
    make_worker(queues={"availability": 9, "backups": 2}, heartbeat_at=NOW)
    policy = make_policy(cron="0 0 * * *")
    found = [
        backed_up(policy, MONDAY + timedelta(days=WEEK - 1), source=make_source(name=name))
        for name in ("server", "laptop", "gone")
    ]
    server, laptop, gone = found
    for day in range(WEEK):
        midnight = MONDAY + timedelta(days=day)
        answered(server, midnight + timedelta(hours=1), 600.0)
        silent(laptop, midnight, midnight + timedelta(hours=10, minutes=50))
        answered(laptop, midnight + timedelta(hours=11), 900.0)
        silent(laptop, midnight + timedelta(hours=16), midnight + timedelta(hours=23))
        if day < 3:
            answered(gone, midnight + timedelta(hours=7), 900.0)
        silent(gone, midnight + timedelta(hours=9), midnight + timedelta(hours=23))
    today = MONDAY + timedelta(days=WEEK)
    for each in (laptop, gone):
        silent(each, today, today + timedelta(hours=8, minutes=59))
    for each in found:
        make_record(
            Status.READY, kind="backup", queue="availability", subject=subject_of(each.pk), inserted_at=today,
            expected_seconds=900.0, due_day=today.date(), rank_day=today.date(),
        )  # fmt: skip
    return found


def on_the_page(client: Client) -> str:
    cache.clear()
    client.force_login(get_user_model().objects.get())  # the cache had the session
    answer = client.get("/")
    assert answer.status_code == 200, answer
    return " ".join(answer.content.decode().split())


def test_those_that_miss_in_some_runs_are_counted_without_being_named():
    """Each of ten comes on nine days of ten: none is at risk, and one or two miss."""
    comes, often = [Stay(11 * HOUR, 17 * HOUR)], Habit([[Stay(11 * HOUR, 17 * HOUR)]] * 9 + [[]], ())
    state = QueueState(NOW, 10, (), (), {}, {})
    given = [replace(contender(number, often), today=Today(9 * HOUR, 3)) for number in range(1, 11)]
    runs = foresee(state, given, lambda expected, rng: 60.0, {False: [comes]}, random.Random(1), runs=201)
    due = [contenders.DueAssignment(each, "laptop", 1, "daily") for each in given]
    assert all(runs.probability(each.id) >= 0.5 for each in given)
    assert at_risk.unnamed_of(due, runs) in (1, 2)


@pytest.mark.parametrize(
    ("checked_in", "reports"),
    [(None, False), (timedelta(hours=-17), True), (timedelta(hours=-22), True), (timedelta(hours=-24), False)],
)
def test_an_agent_reports_unless_its_source_was_seen_long_after_its_last_check_in(fleet, checked_in, reports):
    at = checked_in and NOW + checked_in
    Source.objects.filter(name="laptop").update(checked_in_at=at)
    of_laptop = {each.source: each.contender.today for each in contenders.due_assignments(NOW)}["laptop"]
    assert of_laptop.reports is reports


class TestKept:
    def test_is_what_is_probably_away(self, fleet):
        assert at_risk.keep(NOW, random.Random(1)) == 1
        row = Foresight.objects.get()
        [found] = row.at_risk
        assert (found["source"], found["why"]) == ("gone", "it is probably away, or leaves too early")
        assert (row.looked_at, row.units, row.because) == (3, 2, "")
        assert row.units_needed in (1, 2)
        assert at_risk.keep(NOW, random.Random(1)) == 1  # again, in the same row

    def test_without_units_or_while_all_is_on_hold_there_is_no_estimate(self, fleet):
        assert latest_look(NOW).because.startswith("nothing was foreseen yet")
        hold("moving", by="ann")
        assert at_risk.keep(NOW) == 0
        assert "on hold" in latest_look(NOW).because
        Foresight.objects.update(because="")
        assert "older than an hour" in latest_look(NOW + timedelta(hours=2)).because

    def test_a_look_whose_reading_takes_too_long_is_given_up(self, fleet, monkeypatch):
        monkeypatch.setattr(at_risk, "READING_SECONDS", 0.0)
        assert at_risk.keep(NOW) == 0
        assert latest_look(NOW).because == "that took more than 0 s"
        asked: list[bool] = []
        contenders.due_assignments(NOW, lambda: asked.append(True))
        assert len(asked) == 3, "before each assignment"

    def test_is_shown_by_status_home_and_the_api(self, fleet, admin_client):
        at_risk.keep(NOW, random.Random(1))
        now = timezone.now()
        Foresight.objects.update(at=now, units=2, units_needed=5)
        status, _ = command("status")
        with pytest.raises(SystemExit):
            status("--json")
        units = "by the same runs, 5 units in place of 2 would be enough for 99 % of the sources that are there"
        named = "1 of 3 due assignments will probably miss this period"
        assert latest_look(now).text == f"{named}: gone; {units}"
        assert f"{named}; {units}." in on_the_page(admin_client)
        facts: Any = admin_client.get("/api/sources/at-risk").json()
        assert (facts["number"], facts["at_risk"][0]["source"], facts["units_needed"]) == (1, "gone", 5)

    def test_says_how_many_miss_without_a_name_rather_than_that_none_does(self, fleet, admin_client):
        at_risk.keep(NOW, random.Random(1))
        now = timezone.now()
        Foresight.objects.update(at=now, units_needed=None, looked_at=100, unnamed=17)
        text = "1 of 100 due assignments will probably miss this period{}; about 17 of the others probably will, too"
        assert latest_look(now).text.startswith(text.format(": gone"))
        assert text.format("") in on_the_page(admin_client)
        Foresight.objects.update(number=0, at_risk=[])
        text = "about 17 of 100 due assignments will probably miss this period, and it is not known yet which"
        assert latest_look(now).text == text
        assert f"A{text[1:]}." in on_the_page(admin_client)
        assert admin_client.get("/api/sources/at-risk").json()["unnamed"] == 17
        Foresight.objects.update(unnamed=0)
        assert latest_look(now).text == ""
        assert "none is foreseen to miss its period" in on_the_page(admin_client)
