"""Samples of a large fleet, for *what if*: whole sources, and a change in its true size."""

from datetime import timedelta
from fractions import Fraction

import pytest
from django.db.models import Q

from jobs.models import Worker
from simulation import changes, on_own_fleet, samples, what_if
from simulation.own_history import recorded_fleet
from simulation.samples import SampleRequest
from sources.models import Assignment
from tests.simulation.histories import HOUR, NOW, answered
from tests.sources.factories import MONDAY, backed_up, make_assignment, make_policy, make_source


class TestOfALargeFleet:
    def test_a_sample_with_its_share_of_the_units_has_each_source_with_all_its_policies(
        self, recorded: Assignment
    ) -> None:
        second = make_policy(cron="0 0 * * *")
        for number in range(5):
            at = make_source(name=f"of two {number}")
            for policy in (recorded.policy, second):
                answered(backed_up(policy, MONDAY - timedelta(days=1), source=at), MONDAY + HOUR, 60.0)
        whole = recorded_fleet(NOW, 28, sampling=SampleRequest(8))
        sample = recorded_fleet(NOW, 28, sampling=SampleRequest(4, Q(pk=recorded.pk)))
        assert (whole.share, sample.share, sample.fleet.units) == (Fraction(1), Fraction(1, 2), 1)
        assert all(each in whole.fleet.sources for each in sample.fleet.sources)
        chosen = SampleRequest(4).of(Assignment.objects.active(), 2)[0]
        assert chosen.values("source").distinct().count() == 4
        names = {each.name for each in sample.fleet.sources}
        assert "laptop" in names
        twos = {number for number in range(5) if f"of two {number}" in names}
        assert twos == {number for number in range(5) if f"of two {number} under {second}" in names}
        assert any("all but a sample: one source in 2, with that share of the units" in each for each in sample.lacks)

    @pytest.mark.parametrize(
        ("sources", "units", "tried", "share", "shown"),
        [
            (100_000, 16, changes.Changes(8), Fraction(1, 8), (1, 0)),
            (8_000, 16, changes.Changes(20), Fraction(1, 4), (5, 0)),
            (10_000, 8, changes.Changes(6), Fraction(1, 2), (3, 0)),
            (40_000, 40, changes.Changes(40), Fraction(1, 20), (2, 0)),
            (40_000, 400, changes.Changes(added=((100, "s"),)), Fraction(1, 20), (None, 5)),
            (10_000, 8, changes.Changes(added=((1, "s"),)), Fraction(1), (None, 1)),
            (100_000, 1, changes.Changes(policies=(("p", {}),)), Fraction(1), (None, 0)),
        ],
    )  # fmt: skip
    def test_the_sample_is_large_enough_to_show_the_change(
        self, sources: int, units: int, tried: changes.Changes, share: Fraction, shown: tuple[int | None, int]
    ) -> None:
        assert samples.share_for(sources, units, 2_000, tried) == share
        made = samples.in_sample(tried, share)
        assert (made.units, sum(number for number, _ in made.added)) == shown

    @pytest.mark.parametrize("tried", [changes.Changes(added=((1, "s"),)), changes.Changes(17), changes.Changes(20)])
    def test_a_change_that_no_sample_shows_is_not_computed(self, tried: changes.Changes) -> None:
        with pytest.raises(what_if.NotComputed, match=r"half or twice the units.* simulate --from-history"):
            samples.share_for(100_000, 16, 2_000, tried)

    def test_units_are_those_of_the_whole_fleet_and_limits_are_those_of_what_was_asked(
        self, recorded: Assignment, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(on_own_fleet, "MOST_SOURCES", 2)
        found = on_own_fleet.what_if(NOW, 28, changes.Changes(4), seconds=600).found
        assert (found.now.units, found.then.units) == (2, 4)
        for units in (-5, 0, 20_000):
            with pytest.raises(ValueError, match=f"units {units}: there can be 1 to 10,000"):
                on_own_fleet.what_if(NOW, 28, changes.Changes(units))
        with pytest.raises(ValueError, match="20000 sources cannot be added"):
            on_own_fleet.what_if(NOW, 28, changes.Changes(added=((20_000, "laptop"),)))

    def test_retired_and_paused_sources_crowd_out_none_of_a_changed_policy(
        self, recorded: Assignment, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("simulation.on_own_fleet.database_clock", lambda: NOW)
        monkeypatch.setattr(on_own_fleet, "MOST_SOURCES", 1)
        monkeypatch.setattr(on_own_fleet, "MOST_BEFORE_SAVING", 1)
        monkeypatch.setattr(on_own_fleet, "KEPT_OF_POLICY", 2)
        Worker.objects.update(queues={"backups": 200})  # a small share of which is possible
        policy = make_policy(cron="0 0 * * *")
        for number in range(2):
            make_assignment(policy, make_source(name=f"gone {number}", retired_at=NOW))
        for number in range(20):
            make_assignment(recorded.policy, make_source(name=f"other {number}"))
        last = make_assignment(policy, make_source(name="still there"))
        answered(last, NOW - 30 * HOUR, 60.0)
        name = str(policy)
        assert on_own_fleet.what_if(NOW, 28, changes.Changes(policies=((name, {"period": "0 1 * * *"}),))).found
        policy.schedule.cron = "0 1 * * *"
        assert on_own_fleet.effect_of(policy).lines
