"""Samples of a large fleet, for *what if*: whole sources, and a change in its true size."""

from datetime import datetime, timedelta
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest
from django.db.models import Q

from simulation import changes, on_own_fleet, own_history, samples, what_if
from simulation.fleet_file import SimulatedFleet
from simulation.own_history import recorded_fleet
from simulation.samples import SampleRequest
from sources.models import Assignment
from tests.simulation.histories import HOUR, NOW, answered
from tests.simulation.small_fleets import DAY, fleet, source
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
        assert (whole.share, sample.read, sample.sources) == (Fraction(1), 4, 8)
        assert all(each in whole.fleet.sources for each in sample.fleet.sources)
        names = {each.name for each in sample.fleet.sources}
        assert "laptop" in names
        twos = {number for number in range(5) if f"of two {number}" in names}
        assert twos == {number for number in range(5) if f"of two {number} under {second}" in names}

    def test_what_is_read_when_the_time_for_it_is_over_is_a_sample(
        self, recorded: Assignment, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(own_history, "AT_ONCE", 2)
        monkeypatch.setattr(on_own_fleet, "FOR_READING", 0.0)
        answer = on_own_fleet.what_if(NOW, 28, changes.Changes(3), seconds=600)
        assert answer.lacks[0].startswith("all but a sample: 2 of 3 sources, with their share of the units")
        assert (answer.found.now.units, answer.found.then.units) == (2, 3)

    @pytest.mark.parametrize(("cost", "slower", "read"), [(2, 1, 8), (5, 1, 2), (200, 1, 2), (2, 50, 2)])
    def test_a_sample_grows_while_there_is_time_and_the_last_one_that_was_simulated_is_the_answer(
        self, recorded: Assignment, monkeypatch: pytest.MonkeyPatch, cost: int, slower: int, read: int
    ) -> None:
        """In 2,000 s, of which a source takes 100 to 10,000, and in all looks but the first so many times as long."""
        Assignment.objects.filter(source__name="never seen").delete()
        clock, asked, policy = [0.0], [], make_policy(cron="0 0 * * *")
        for number in range(20):
            answered(make_assignment(policy, make_source(name=f"s{number}")), NOW - 30 * HOUR, 60.0)

        def slowly(now: SimulatedFleet, then: SimulatedFleet, days: int, left: float, **rests: Any) -> Any:
            asked.append(len(now.sources))
            clock[0] += len(now.sources) * cost * 50 * (slower if len(asked) > 1 else 1)
            if len(asked) > 1 and clock[0] > 2_000:
                raise what_if.NotComputed("it takes longer")
            return what_if.compare(now, then, days, **rests)

        for module in (on_own_fleet, own_history):
            monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock[0]))
            monkeypatch.setattr(module, "AT_ONCE", 2, raising=False)
        for name, value in (("FIRST_SOURCES", 2), ("AT_ONCE_IF", 2), ("MOST_SOURCES", 12), ("compare", slowly)):
            monkeypatch.setattr(on_own_fleet, name, value)
        answer = on_own_fleet.what_if(NOW, 28, changes.Changes(3), seconds=2_000)
        assert answer.lacks[0].startswith(f"all but a sample: {read} of 22 sources")
        assert answer.found.now.sources == read

    def test_the_units_of_a_sample_are_its_share_of_the_load(self, recorded: Assignment) -> None:
        """The laptop takes three times as long, and its source is under an hourly policy, too."""
        Assignment.objects.update(last_backup_for=60.0)
        Assignment.objects.filter(pk=recorded.pk).update(last_backup_for=180.0)
        one = SampleRequest(1, Q(pk=recorded.pk))
        assert recorded_fleet(NOW, 28, sampling=one).share == pytest.approx(180 / 300)
        backed_up(make_policy(cron="0 * * * *"), MONDAY, source=recorded.source)
        Assignment.objects.filter(policy__schedule__cron="0 * * * *").update(last_backup_for=10.0)
        assert float(recorded_fleet(NOW, 28, sampling=one).share) == pytest.approx(420 / 540)

    @pytest.mark.parametrize(("units", "share"), [(16, Fraction(1, 50)), (17, Fraction(1, 50)), (5, Fraction(2, 3))])
    def test_units_of_a_sample_work_and_rest_for_their_share(self, units: int, share: Fraction) -> None:
        number, rest = samples.units_in(units, share), samples.rest_in(units, share)
        assert number - 1 < units * share <= number
        assert number / (1 + rest) == pytest.approx(float(units * share))
        assert (samples.units_in(units, samples.WHOLE), samples.rest_in(units, samples.WHOLE)) == (units, 0.0)

    def test_a_unit_that_rests_does_its_share_of_the_work_and_stands_for_a_part_of_one(self) -> None:
        given = fleet(*(source(f"s{number}", (0, DAY, "awake"), median_seconds=3600, backed_up=True)
                        for number in range(40)), units=1)  # fmt: skip
        found = what_if.compare(given, given, 1, rests=(0.0, 2.0))
        assert (found.now.protected, found.then.protected) == (23, 8)
        assert found.now.peak <= 1
        assert found.then.peak == pytest.approx(1 / 3, abs=0.01)

    @pytest.mark.parametrize(("kept", "units"), [(20, 3), (30, 3), (45, 2)])
    def test_a_sample_with_parts_of_units_has_the_share_of_the_whole(self, kept: int, units: int) -> None:
        """Sixty sources are there for two days and take 1 to 3 h each, which is more than the units can do."""
        sources = [
            source(f"s{number}", (0, 2 * DAY, "awake"), median_seconds=3600 * (1 + number * 7 % 3), backed_up=True)
            for number in range(60)
        ]
        whole = fleet(*sources, units=units)
        share = Fraction(
            sum(each["median_seconds"] for each in sources[:kept]), sum(each["median_seconds"] for each in sources)
        )
        some = fleet(*sources[:kept], units=samples.units_in(units, share))
        more = changes.Changes(units + 1)
        of_all = what_if.compare(whole, more.made_to(whole), 2)
        rests = samples.rest_in(units, share), samples.rest_in(units + 1, share)
        found = what_if.compare(some, samples.in_sample(more, share).made_to(some), 2, rests=rests)
        for one, other, margin in zip((found.now, found.then), (of_all.now, of_all.then), found.margins, strict=False):
            assert 0.1 < other.share < 0.95
            assert one.share == pytest.approx(other.share, abs=margin)
            assert sum(one.busy) / float(share) == pytest.approx(sum(other.busy), rel=0.1)

    def test_the_margin_is_that_of_a_ratio_of_totals_over_sources(self) -> None:
        """A hundred sources with one period each, of which 50 were protected, and then 75, which is the difference."""
        possible = {(number, 0) for number in range(100)}
        half, more = {(number, 0) for number in range(50)}, {(number, 0) for number in range(75)}
        now, then, difference = what_if.margins((possible, half), (possible, more))
        assert now == pytest.approx(4 * (100 / 99 * 100 * 0.005**2) ** 0.5)
        assert then == pytest.approx(4 * (100 / 99 * (75 * 0.0025**2 + 25 * 0.0075**2)) ** 0.5)
        assert difference == pytest.approx(4 * (100 / 99 * (75 * 0.0025**2 + 25 * 0.0075**2)) ** 0.5)
        alike = what_if.margins((possible, possible), (possible, possible))
        assert (0.05 < alike[0] < 0.06, alike[2]) == (True, 0.0)
        assert what_if.margins(({(1, 0)}, set()), ({(1, 0)}, set()))[0] == 1.0

    def test_so_few_more_sources_that_a_sample_has_none_are_shown_as_more_with_a_word(self) -> None:
        tried = changes.Changes(added=((1, "s"), (100, "t"), (120, "u")))
        assert samples.in_sample(tried, Fraction(1, 50)).added == ((1, "s"), (2, "t"), (2, "u"))
        one, other = samples.coarse(tried, Fraction(1, 50))
        assert one == "the effect of 1 more like s, which are too few for a sample: shown is that of about 50"
        assert "120 more like u" in other
        assert samples.coarse(tried, samples.WHOLE) == []

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
        monkeypatch.setattr(on_own_fleet, "BEFORE_SAVING_SECONDS", 600.0)
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

    @pytest.mark.parametrize(("most", "seen"), [(4, NOW - 30 * HOUR), (40, None)], ids=["a sample", "all, later"])
    def test_sources_that_were_never_seen_hide_no_others_of_a_changed_policy(
        self, recorded: Assignment, monkeypatch: pytest.MonkeyPatch, most: int, seen: datetime | None
    ) -> None:
        """The first sources of a policy may be gone."""
        for name, value in (("FIRST_SOURCES", 2), ("AT_ONCE_IF", 2), ("MOST_SOURCES", most), ("KEPT_OF_POLICY", 3)):
            monkeypatch.setattr(on_own_fleet, name, value)
        monkeypatch.setattr(samples, "_hash", lambda each: b"%09d" % each)
        policy = make_policy(cron="0 0 * * *")
        for number in range(6):
            make_assignment(policy, make_source(name=f"away {number}"), last_contacted_at=NOW - timedelta(days=90))
        there = make_assignment(policy, make_source(name="there"), last_contacted_at=seen)
        answered(there, NOW - 30 * HOUR, 60.0)
        tried = changes.Changes(policies=((str(policy), {"period": "0 1 * * *"}),))
        assert on_own_fleet.what_if(NOW, 28, tried, seconds=600).found

    def test_more_sources_like_one_that_is_named_with_its_policy_are_added_to_a_sample(
        self, recorded: Assignment, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name, value in (("FIRST_SOURCES", 1), ("AT_ONCE_IF", 1), ("MOST_SOURCES", 1)):
            monkeypatch.setattr(on_own_fleet, name, value)
        second = make_policy(cron="0 0 * * *")
        for number in range(9):
            at = make_source(name=f"of two {number}")
            for policy in (recorded.policy, second):
                answered(backed_up(policy, MONDAY - timedelta(days=1), source=at), MONDAY + HOUR, 60.0)
        for number in range(9):
            tried = changes.Changes(added=((50, f"of two {number} under {second}"),))
            assert on_own_fleet.what_if(NOW, 28, tried, seconds=600).found
