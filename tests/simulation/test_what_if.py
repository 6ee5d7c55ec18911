"""A *what if*: the fleet of the last days as it was recorded, the changes that are tried, and the difference."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.core.cache import caches
from django.db import connection

from fleet.dry_runs import Effect
from fleet.foreseeing.presence import Sighting, Stay, presence_of
from jobs.models import Attempt, BacklogRecord
from jobs.states import AttemptOutcome, Status
from schedules.models import Schedule
from simulation import changes, on_own_fleet, what_if
from simulation.fleet_file import SimulatedPresence
from simulation.own_history import HistoryTooShort, recorded_fleet
from sources.models import Assignment, Policy
from tests.commands import command
from tests.factories import make_record
from tests.forms import Inputs, sent, shown
from tests.simulation.histories import DAYS, NOW, answered
from tests.simulation.small_fleets import DAY, HOUR, fleet, source
from tests.sources.factories import MONDAY, backed_up, make_assignment, make_policy, make_source

simulate, refused = command("simulate")


class TestPresence:
    def test_is_between_what_was_seen_and_half_way_to_the_silences_around(self):
        seen = [Sighting(day * DAY + 9 * HOUR, day * DAY + 17 * HOUR, True) for day in range(2)]
        seen += [Sighting(day * DAY + 19 * HOUR, day * DAY + 20 * HOUR, False) for day in range(2)]
        seen += [
            Sighting(DAY + 7 * HOUR, DAY + 8 * HOUR, False),
            Sighting(2 * DAY + 10 * HOUR, 2 * DAY + 11 * HOUR, True),
        ]
        assert presence_of(seen, 3, 0.0, wakes=False) == [
            Stay(8.5 * HOUR, 18 * HOUR), Stay(DAY + 8.5 * HOUR, DAY + 18 * HOUR),
            Stay(2 * DAY + 8.5 * HOUR, 2 * DAY + 18 * HOUR),
        ]  # fmt: skip

    def test_of_what_sleeps_in_between_is_asleep_where_a_packet_may_wake_it(self):
        seen = [Sighting(9 * HOUR, 9 * HOUR, True), Sighting(15 * HOUR, 15 * HOUR, True)]
        seen += [Sighting(11 * HOUR, 12 * HOUR, False), Sighting(8 * HOUR, 9 * HOUR, False)]
        seen += [Sighting(15 * HOUR, 16 * HOUR, False)]
        cut = [Stay(9 * HOUR, 11 * HOUR), Stay(12 * HOUR, 15 * HOUR)]
        assert presence_of(seen, 1, 0.0, wakes=False) == cut
        asleep = Stay(11 * HOUR, 12 * HOUR, "asleep")
        assert presence_of(seen, 1, 0.0, wakes=True) == [cut[0], asleep, cut[1]]

    def test_of_a_day_on_which_nobody_asked_is_that_of_the_same_weekday(self):
        seen = [Sighting(9 * HOUR, 10 * HOUR, True), Sighting(12 * HOUR, 13 * HOUR, False)]
        assert presence_of(seen, 8, 0.0, wakes=False)[1:] == [Stay(7 * DAY, 7 * DAY + 11 * HOUR)]

    def test_of_what_was_hardly_ever_silent_is_always_but_then(self):
        seen = [Sighting(day * DAY + HOUR, day * DAY + HOUR, True) for day in range(20)]
        assert presence_of(seen, 20, 0.0, wakes=False) == [Stay(0.0, 20 * DAY)]
        found = presence_of([*seen, Sighting(DAY, DAY + 60, False)], 20, 0.0, wakes=False)
        assert found == [Stay(0.0, DAY), Stay(DAY + 60, 20 * DAY)]
        assert presence_of([Sighting(0, 60, False)], 1, 0.0, wakes=False) == []


class TestChanges:
    def test_are_made_to_units_policies_and_sources(self):
        given = fleet(source("there", (0, DAY, "awake")))
        settings = [changes.policy_setting(each) for each in ("daily.window=mon-fri 22:00-06:00; sun 00:00-00:00",)]
        settings += [changes.policy_setting("daily.wake_every=2h"), changes.policy_setting("daily.cron=0 7 * * *")]
        made = changes.Changes(3, settings, [changes.addition(["2", "laptops", "like", "there"])]).made_to(given)
        assert (made.units, [each.name for each in made.sources]) == (3, ["there", "there +1", "there +2"])
        [policy] = made.policies
        assert (policy.period, policy.wake_every, len(policy.windows)) == ("0 7 * * *", 7200, 2)
        assert policy.windows[0] == {"days": "mon-fri", "start": "22:00", "end": "06:00"}
        assert given.policies[0].windows == []

    @pytest.mark.parametrize(
        ("tried", "words"),
        [
            (lambda: changes.policy_setting("daily.windw=always"), "did you mean 'window'"),
            (lambda: changes.policy_setting("daily"), "write NAME.window="),
            (lambda: changes.policy_setting("daily.window=nights"), "write ranges as"),
            (lambda: changes.policy_setting("daily.wake_every=soon"), "not a duration"),
            (lambda: changes.addition(["many", "like", "there"]), "write 50 laptops like NAME"),
            (lambda: _made([("daly", {})]), "did you mean 'daily'"),
            (lambda: _made([("daily", {"windows": [{"days": "mo"}]})]), "policy daily: window"),
            (lambda: _made([("daily", {"period": "at noon"})]), "policy daily: cron"),
            (lambda: changes.Changes(added=[(1, "ther")]).made_to(_there()), "did you mean 'there'"),
            (lambda: changes.Changes(units=0).made_to(_there()), "1 to 10,000"),
        ],
    )  # fmt: skip
    def test_that_cannot_be_say_what_is_wrong(self, tried: Any, words: str):
        with pytest.raises(ValueError, match=words):
            tried()


def _there() -> Any:
    return fleet(source("there", (0, DAY, "awake")))


def _made(policies: Any) -> Any:
    return changes.Changes(policies=policies).made_to(_there())


class TestTheDifference:
    def test_is_who_misses_more_and_when_units_are_at_work(self):
        sources = [source(name, (9 * HOUR, 10 * HOUR, "awake"), backed_up=True, median_seconds=3000) for name in "abc"]
        given = fleet(*sources, units=3)
        found = what_if.compare(given, changes.Changes(1).made_to(given), 1)
        assert (found.now.protected, found.then.protected, found.is_worse) == (3, 1, True)
        assert sorted(each.name for each in found.worse) == ["b", "c"]
        assert (found.better, round(found.now.peak, 2), found.then.busy[8]) == ([], 2.5, 0.0)
        assert what_if.compare(given, changes.Changes(4).made_to(given), 1).is_worse is False
        assert "33.3%" in " ".join(what_if.as_text(found))

    def test_of_what_takes_too_long_is_of_fewer_days_or_none(self):
        given = fleet(*(source(f"s{number}", (0, 9 * DAY, "awake")) for number in range(40)), units=2)
        with pytest.raises(what_if.NotComputed, match="one day of 40 sources takes longer than the 0 s"):
            what_if.compare(given, given, 9, seconds=0.0)
        ledger = what_if.cut(what_if._simulated(given, 9, float("inf"), lambda share: None), 4)
        assert ledger.result() == what_if._simulated(given, 4, float("inf"), lambda share: None).result()


class TestFromHistory:
    def test_the_fleet_is_as_it_was_recorded_and_says_what_is_not_known(self, recorded):
        found = recorded_fleet(NOW, 28)
        assert (found.days, found.fleet.units, found.fleet.start) == (DAYS, 2, MONDAY)
        server, laptop = found.fleet.sources
        assert (server.presence, server.backed_up) == ([SimulatedPresence(0.0, DAYS * DAY)], False)
        assert (laptop.presence[1], laptop.median_seconds) == (
            SimulatedPresence(1.375 * DAY - 300, 1.375 * DAY + 2700),
            1800.0,
        )
        assert any("history is too short for 28 days: it begins on 2026-03-02" in each for each in found.lacks)
        assert any("1 of 3 assignments left out, as never seen there (never seen)" in each for each in found.lacks)
        assert found.lacks[-1] == "the effect of failures and breakers, which are not simulated"
        Policy.objects.update(seeding_limit=1, excluded_dates=["2026-12-24"], at_close="stop")
        words = "failures, breakers, throttles, excluded dates and rules for the close of a window"
        assert recorded_fleet(NOW, 28).lacks[-1] == f"the effect of {words}, which are not simulated"

    def test_without_a_history_it_says_what_is_missing(self, db):
        with pytest.raises(HistoryTooShort, match="no source is under a policy"):
            recorded_fleet(NOW, 28)
        assignment = backed_up(make_policy(), MONDAY)
        with pytest.raises(HistoryTooShort, match="no worker is alive"):
            recorded_fleet(NOW, 28)
        with pytest.raises(HistoryTooShort, match="no attempt was recorded since"):
            recorded_fleet(NOW, 28, units=2)
        answered(assignment, NOW + timedelta(hours=2), 60.0)
        with pytest.raises(HistoryTooShort, match="one whole day is needed"):
            recorded_fleet(NOW + timedelta(hours=3), 28, units=2)

    def test_of_sources_that_were_never_seen_it_says_so(self, recorded, monkeypatch):
        monkeypatch.setattr("simulation.management.commands.simulate.database_clock", lambda: NOW)
        unused = make_policy()
        for asked, words in (
            (("--add", "5", "laptops", "like", "never seen"), "nothing is known of source 'never seen'"),
            (("--policy", f"{unused}.cron=0 7 * * *"), f"nothing is known of sources under policy '{unused}'"),
        ):
            assert words in refused("--from-history", 28, *asked)
        Attempt.objects.exclude(outcome=AttemptOutcome.UNAVAILABLE).delete()
        because = refused("--from-history", 28)
        assert "3 of 3 assignments left out, as never seen there (server, laptop, never seen)" in because

    def test_a_bad_change_is_refused_before_a_missing_history(self, db, admin_client):
        assignment = backed_up(make_policy(), MONDAY)
        name = str(assignment.policy)
        caches["limits"].clear()
        there = {"policy": name, "cron": "0 7 * * *", "add": 2, "like": assignment.source.name}
        assert admin_client.get("/api/what-if", there).status_code == 409
        for bad in (
            {"cron": "0 25 * * *"}, {"window": "nights"}, {"window": "mon 8-9"}, {"policy": f"{name}1"},
            {"like": "ther"},
        ):  # fmt: skip
            answer = admin_client.get("/api/what-if", there | bad)
            assert (answer.status_code, [each["field"] for each in answer.json()["errors"]]) == (422, [*bad])
        page = admin_client.get("/what-if/", {"policy": assignment.policy_id, "cron": "0 25 * * *"}).content.decode()
        assert "Not computed" not in page
        for asked, words in (
            (("--policy", f"{name}1.cron=0 7 * * *"), "did you mean"),
            (("--add", "2", "laptops", "like", "ther"), "there is no source"),
            (("--accuracy", "--days", 5), "from day 8 on"),
            (("--parts", "--units", 3), "leave out --units"),
        ):
            assert words in refused("--from-history", 28, *asked)

    def test_the_command_prints_the_difference(self, recorded, monkeypatch):
        monkeypatch.setattr("simulation.management.commands.simulate.database_clock", lambda: NOW)
        policy = str(recorded.policy)
        asked = ("--from-history", 28, "--policy", f"{policy}.window=mon-sun 00:00-06:00")
        found = json.loads(simulate(*asked, "--json"))
        assert (found["days"], found["now"]["share"], found["then"]["share"]) == (DAYS, 1.0, 0.5)
        assert found["worse"] == [{"name": "laptop", "before": 0, "after": DAYS}]
        printed = simulate(*asked)
        assert "laptop" in printed
        assert "protected, both simulated: 100.0% of" in printed
        assert "not known: history is too short for 28 days" in printed
        assert "lookahead" in simulate("--from-history", 5, "--no-bound", "--scheduler", "lookahead")
        assert "name a file, or --from-history" in refused()
        assert "did you mean" in refused("--from-history", 28, "--add", "5", "laptops", "like", "lapto")

    def test_the_page_and_the_api_say_the_same(self, recorded, admin_client, monkeypatch):
        for module in ("dashboard.what_if", "api.what_if"):
            monkeypatch.setattr(f"{module}.database_clock", lambda: NOW)
        caches["limits"].clear()
        unasked = admin_client.get("/what-if/").content.decode()
        assert "The difference" not in unasked
        assert "share: at most half of the units" in unasked
        asked = {"policy": recorded.policy_id, "window": "mon-sun 00:00-06:00"}
        page = admin_client.get("/what-if/", asked).content.decode()
        assert f"laptop: {DAYS} in place of 0" in page
        assert "<rect" in page
        assert "write ranges as" in admin_client.get("/what-if/", asked | {"window": "nights"}).content.decode()
        because = admin_client.get("/what-if/", {"add": 5, "like": "lapto"}).content.decode()
        assert "Not computed, because there is no source" in because
        answer = admin_client.get("/api/what-if", asked | {"policy": str(recorded.policy)})
        found = answer.json()
        assert (found["now"]["share"], found["then"]["share"], found["worse"][0]["name"]) == (1.0, 0.5, "laptop")
        assert admin_client.get("/api/what-if", {"window": "always"}).status_code == 422
        Assignment.objects.all().delete()
        assert "no source is under a policy" in admin_client.get("/api/what-if", {"units": 3}).json()["detail"]

    def test_a_policy_that_makes_something_worse_is_saved_once_that_was_agreed_to(
        self, recorded, admin_client, monkeypatch
    ):
        monkeypatch.setattr("simulation.on_own_fleet.database_clock", lambda: NOW)
        address = f"/admin/sources/policy/{recorded.policy_id}/change/"
        form = shown(admin_client.get(address).context["adminform"].form)
        worse = form | sent("window", [{"days": "mon-sun", "start": "00:00", "end": "06:00"}])
        asked = admin_client.post(address, worse)
        page = asked.content.decode()
        assert asked.status_code == 200
        assert "Save it all the same?" in page
        assert "laptop would miss 7 periods in place of 0" in page
        assert "<rect" in page
        assert 'space-between"><span>00:00 UTC' in page  # the page has no styles of its own
        assert Policy.objects.get(pk=recorded.policy_id).window == []
        again = Inputs(page).found
        assert again["window-0-end"] == "06:00"
        assert admin_client.post(address, again).status_code == 302
        assert len(Policy.objects.get(pk=recorded.policy_id).window) == 1
        answer = admin_client.post(address, form, follow=True)  # always, as before: better
        assert "The fleet with this policy: over 7 recorded days" in answer.content.decode()
        assert "not known: the effect of failures and breakers" in answer.content.decode()
        assert Policy.objects.get(pk=recorded.policy_id).window == []

    def test_what_cannot_be_computed_stops_no_edit(self, recorded, admin_client, monkeypatch):
        monkeypatch.setattr("simulation.on_own_fleet.BEFORE_SAVING_SECONDS", 0.001)
        monkeypatch.setattr("simulation.on_own_fleet.database_clock", lambda: NOW)
        address = f"/admin/sources/policy/{recorded.policy_id}/change/"
        form = shown(admin_client.get(address).context["adminform"].form) | {"cron": "0 1 * * *"}
        answer = admin_client.post(address, form, follow=True)
        assert "was not computed, because" in answer.content.decode()
        assert Policy.objects.get(pk=recorded.policy_id).schedule.cron == "0 1 * * *"
        with connection.cursor() as cursor:
            cursor.execute("SHOW statement_timeout")
            assert cursor.fetchone() != ("1ms",)  # which was the limit of what is shown before

    def test_a_policy_is_looked_at_whatever_it_may_hold_and_not_while_it_is_paused(
        self, recorded, admin_client, monkeypatch
    ):
        monkeypatch.setattr("simulation.on_own_fleet.database_clock", lambda: NOW)
        policy = Policy.objects.get(pk=recorded.policy_id)
        Policy.objects.update(vanish_grace=0)
        make_record(Status.READY, kind="backup", queue="backups", subject="of another program")
        Attempt.objects.create(
            record=BacklogRecord.objects.get(subject="of another program"), number=1, queue="backups",
            started_at=NOW - timedelta(hours=1), ended_at=NOW, outcome=AttemptOutcome.SUCCEEDED,
        )  # fmt: skip
        policy.refresh_from_db()
        policy.schedule.cron = "0 1 * * *"
        assert on_own_fleet.effect_of(policy).lines
        Schedule.objects.update(enabled=False)
        other = make_assignment(make_policy(), make_source(name="of another policy"))
        assert other.policy.schedule.enabled
        assert on_own_fleet.effect_of(policy) == Effect()
