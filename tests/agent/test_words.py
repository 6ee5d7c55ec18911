"""Texts that users type and read: durations, times, waits. Pure functions of the agent's file."""

import random
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from time import tzset

import pytest
from freezegun import freeze_time

from tests.agent.processes import BAD_USAGE, as_module

agent = as_module("backupsched_agent_words")
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    tzset()
    yield
    monkeypatch.undo()
    tzset()


class TestSnooze:
    @pytest.mark.parametrize(
        ("words", "seconds"),
        [("2h", 7200), ("90m", 5400), ("90min", 5400), ("1h30m", 5400), ("1h 30m", 5400), ("45s", 45), ("7d", 604800)],
    )
    def test_a_duration_is_sent_as_seconds(self, words, seconds):
        assert agent.snooze_body(words, NOON) == {"for": seconds}

    @pytest.mark.parametrize(
        ("words", "until"),
        [
            ("until 14:00", "2026-11-21T13:00:00+00:00"),
            ("14:00", "2026-11-21T13:00:00+00:00"),
            ("Until 13:00", "2026-11-22T12:00:00+00:00"),  # it is 13:00 there: the next one is tomorrow's
            ("until 2026-11-22 09:00", "2026-11-22T08:00:00+00:00"),
            ("2026-11-22", "2026-11-21T23:00:00+00:00"),
            ("2026-11-22T09:00:00Z", "2026-11-22T09:00:00+00:00"),
            ("2026-11-22T09:00:00.5+02:00", "2026-11-22T07:00:00+00:00"),
        ],
    )
    def test_a_time_is_the_places_own_and_sent_in_utc(self, words, until):
        assert agent.snooze_body(words, NOON) == {"until": until}

    def test_an_hour_after_the_clock_change_is_that_days_hour(self):
        saturday_night = datetime(2026, 10, 24, 20, tzinfo=UTC)  # 22:00 there; at 03:00 summer time ends
        assert agent.snooze_body("until 09:00", saturday_night) == {"until": "2026-10-25T08:00:00+00:00"}

    @pytest.mark.parametrize(
        "words",
        ["", "7d1s", "h", "25:00", "yesterday", "9999-12-31T23:59:59Z", "2026-02-30", "9999d",],
    )  # fmt: skip
    def test_what_is_no_time_within_a_week_is_refused(self, words):
        with pytest.raises(agent.Problem) as caught:
            agent.snooze_body(words, NOON)
        assert caught.value.code == BAD_USAGE


class TestWaits:
    def test_after_success_it_is_the_servers_interval_within_a_fifth(self):
        waits = [agent.wait_after_success(300, random.Random(seed)) for seed in range(500)]
        assert 240 <= min(waits) < 250
        assert 350 < max(waits) <= 360
        assert 295 < sum(waits) / len(waits) < 305

    @pytest.mark.parametrize(
        ("interval", "usual"),
        [(0, 10), (float("inf"), 86_400), ("60", 300), (10**400, 86_400),],
    )  # fmt: skip
    def test_an_absurd_interval_is_bounded(self, interval, usual):
        assert 0.8 * usual <= agent.wait_after_success(interval, random.Random(1)) <= 1.2 * usual

    def test_failures_double_the_wait_up_to_a_quarter_of_an_hour(self):
        away = agent.Problem(agent.UNREACHABLE, "away", "wait")
        drawn = [[agent.wait_after_problem(away, k, random.Random(seed)) for seed in range(300)] for k in range(1, 12)]
        longest = [max(waits) for waits in drawn]
        expected = [5, 10, 20, 40, 80, 160, 320, 640, 900, 900, 900]
        assert all(0.95 * bound < found <= bound for found, bound in zip(longest, expected, strict=True))
        assert all(min(waits) >= bound / 2 for waits, bound in zip(drawn, expected, strict=True))
        assert agent.wait_after_problem(away, 10**9, random.Random(1)) <= 900

    def test_it_never_asks_sooner_than_the_server_wants(self):
        busy = agent.Problem(agent.REFUSED, "busy", "wait", status=429, retry_after=60.0)
        waits = [agent.wait_after_problem(busy, 1, random.Random(seed)) for seed in range(300)]
        assert min(waits) >= 60
        assert max(waits) <= 66
        assert len(set(waits)) == 300

    @pytest.mark.parametrize("status", [401, 403])
    def test_what_only_a_person_can_mend_is_tried_hourly(self, status):
        refused = agent.Problem(agent.REFUSED, "no", "ask", status=status)
        assert 2880 <= agent.wait_after_problem(refused, 1, random.Random(1)) <= 4320

    @pytest.mark.parametrize(
        ("header", "seconds"),
        [(None, None), ("soon", None), ("0", 1), ("1e999", None), ("Sat, 21 Nov 2020 12:01:00 GMT", 1),],
    )  # fmt: skip
    def test_retry_after_is_seconds_or_a_date_and_bounded(self, header, seconds):
        with freeze_time(NOON):
            assert agent.seconds_of(header) == seconds


@pytest.mark.parametrize(
    ("typed", "config", "is_json"),
    [
        ("--config mine status --json", "mine", True),
        ("--json status --config mine", "mine", True),
        ("--config theirs --sysfs-root /tmp status --config mine", "mine", False),
        ("run", None, False),
    ],
)
def test_what_commands_share_is_typed_before_them_or_behind_them(typed, config, is_json):
    found = agent.read_options(typed.split())
    assert (found.config, found.json) == (Path(config) if config else agent.default_config(), is_json)
    assert found.sysfs_root == ("/tmp" if "/tmp" in typed else "/sys")
    with pytest.raises(SystemExit):
        agent.read_options(["--json", "run"])  # which prints no answer


def test_a_config_does_not_show_its_token():
    assert "secret" not in repr(agent.Config("https://host", "bsa_secret", "laptop"))


class TestRefusals:
    CONFIG = agent.Config("https://backups.example.org", "", "laptop")

    @pytest.mark.parametrize(
        ("answer", "message"),
        [
            ({"title": "Conflict", "detail": "the detail", "hint": "the hint"}, "the detail\n  → the hint"),
            ({"detail": ["no", "text"], "hint": 7}, "['no', 'text']\n  → 7"),
        ],
    )
    def test_the_servers_words_are_said_whatever_its_age(self, answer, message):
        assert str(agent.refusal(self.CONFIG, 409, answer, None)) == message
