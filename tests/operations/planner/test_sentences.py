"""What is said of a plan: the verdict first, then what to look out for."""

from typing import Any

import pytest

from schedules.plan import Plan
from schedules.plan_load import profile_of
from schedules.plan_queue import Gate
from schedules.plan_sentences import told_pace, verdict_of
from schedules.plan_warnings import sentences_of
from tests.operations.planner.plans import plan_for, planned

SLOW = Gate(in_flight=50, rate=1, burst=1, name="slow")


def levels(plan: Plan, **about: Any) -> dict[str, str]:
    return {sentence.text: sentence.level for sentence in sentences_of(plan, **about)}


def first(plan: Plan) -> tuple[str, str]:
    found = verdict_of(plan)[0]
    return found.level, found.text


class TestTheVerdict:
    def test_of_a_batch_that_completes(self) -> None:
        assert first(plan_for(gate=SLOW)) == (
            "good", "Each batch of 1,000 events takes 16 min 40 s at 1 a second: it completes in its window of 60 min."
        )  # fmt: skip

    def test_of_a_million_in_a_minute(self) -> None:
        gate = Gate(in_flight=99, rate=50, name="bulk")
        assert first(plan_for(cron="0 3 * * *", events=1_000_000, window_for=60, gate=gate)) == (
            "bad",
            "Cannot complete: 1,000,000 events in 1 min need 16,667 a second, the throttle bulk lets 50 through. "
            "A batch takes 5 h 33 min.",
        )
        said = levels(plan_for(cron="0 3 * * *", events=1_000_000, window_for=60, gate=gate))
        assert not [text for text in said if text.startswith("But ")]

    def test_of_a_million_in_a_minute_without_a_throttle(self) -> None:
        cannot = (
            "Cannot complete: 1,000,000 events in 1 min need 16,667 a second, one worker delivers some 1,500 a second"
        )
        million: dict[str, Any] = {"cron": "0 3 * * *", "events": 1_000_000, "window_for": 60, "seconds_each": 0.0014}
        assert first(plan_for(**million)) == ("bad", f"{cannot}. A batch takes 11 min 6 s.")
        one, two = Gate(places=200, workers=1), Gate(places=400, workers=2)
        assert first(plan_for(**million, gate=one)) == ("bad", f"{cannot}. A batch takes 11 min 6 s.")
        assert first(plan_for(**million, gate=two)) == (
            "bad", f"{cannot}, the 2 that are alive some 3,000. A batch takes 5 min 33 s."
        )  # fmt: skip

    def test_names_the_speed_of_a_worker_where_that_is_what_limits(self) -> None:
        gate = Gate(in_flight=50, rate=9_000, places=200, name="wide", workers=1)
        found = levels(plan_for(seconds_each=0.0014, assumed=False, gate=gate))
        assert [text for text in found if text.endswith("run 200 at once; one worker delivers some 1,500 a second.")]
        found = levels(plan_for(seconds_each=0.0014, events=9_000_000, gate=gate))
        assert [text for text in found if text.startswith("The pace of the workers is asked for 1.7 times what it")]
        assert [text for text in levels(plan_for()) if "now, one is reckoned with; one worker delivers some" in text]

    def test_never_says_that_a_batch_takes_no_time(self) -> None:
        one = Gate(places=200, workers=1)
        assert first(plan_for(events=1, seconds_each=0.0014, gate=one))[1].startswith(
            "Each batch of 1 event takes less than 0.1 s at 1,500 a second"
        )
        assert "takes 0.5 s at" in first(plan_for(events=1, seconds_each=0.5, gate=one))[1]

    def test_names_the_workers_where_they_are_what_limits(self) -> None:
        level, text = first(plan_for(events=10_000, gate=Gate(in_flight=50, places=2, name="wide")))
        assert level == "bad"
        assert "the concurrency of the workers lets 2 through" in text
        assert (
            "the throttle wide lets 2 through"
            in first(plan_for(events=10_000, gate=Gate(2, places=50, name="wide")))[1]
        )

    def test_of_a_paused_throttle(self) -> None:
        level, text = first(plan_for(gate=Gate(in_flight=0, name="night")))
        assert level == "bad"
        assert text == "Its throttle night is paused (at most 0 in flight): no batch begins until it is raised."

    def test_of_one_event_without_window_or_throttle(self) -> None:
        assert first(plan_for(events=1, window_for=0)) == (
            "good", "Each batch of 1 event starts at its instants: nothing holds it back."
        )  # fmt: skip

    def test_without_a_window_only_tells_how_long(self) -> None:
        assert first(plan_for(window_for=0, gate=SLOW)) == (
            "", "Each batch of 1,000 events takes 16 min 40 s at 1 a second. It has no window to complete in."
        )  # fmt: skip

    def test_of_a_policy_without_assignments(self) -> None:
        assert first(plan_for(events=0)) == ("", "A batch has no events now: nothing is due to it.")

    def test_says_up_to_where_a_provider_may_yield_fewer(self) -> None:
        assert "Each batch of up to 1,000 events" in first(plan_for(gate=SLOW, at_most=True))[1]

    def test_of_a_batch_that_is_late_by_less_than_is_told_completes_in_its_window(self) -> None:
        each = 3_600 - profile_of(planned()).last + 0.04
        found = levels(plan_for(seconds_each=each, gate=Gate(in_flight=1_000)))
        assert not [text for text in found if "after their window" in text]

    def test_counts_the_batches_that_others_make_late(self) -> None:
        flood = planned(name="flood", cron="0 3 * * *", events=10_000)
        found = levels(plan_for(flood, gate=SLOW, zone="Europe/Berlin"))
        [late] = [text for text in found if text.startswith("But ")]
        assert found[late] == "bad"
        assert late.startswith("But 21 of 167 batches in these 7 days end after their window behind what shares its ")
        assert late.endswith("first that of Sat 2026-11-21 04:00.")
        assert found["It shares the throttle slow with flood."] == ""
        assert not [text for text in found if "completes in its window" in text]

    def test_of_a_batch_whose_last_event_takes_longer_than_is_left(self) -> None:
        found = levels(plan_for(gate=Gate(), seconds_each=120))
        assert [text for text in found if text.startswith("But 167 of 167 batches")]
        assert "good" not in found.values()

    def test_says_when_more_comes_than_goes(self) -> None:
        found = levels(plan_for(events=9_000, window_for=0, gate=SLOW))
        [more] = [text for text in found if "more and more is left over" in text]
        assert more.startswith("The throttle slow is asked for 2.5 times what it lets through")
        assert found[more] == "bad"

    def test_says_where_its_pace_comes_from(self) -> None:
        assert (
            "Nothing of it has succeeded yet: 1 s each is assumed; the throttle slow lets 50 be in flight and 1 "
            "begin a second; no worker serves its queue now, so none is reckoned with." in levels(plan_for(gate=SLOW))
        )
        measured = levels(plan_for(gate=Gate(places=100), seconds_each=0.1234, assumed=False))
        assert (
            "An event is in flight for 0.123 s, the median of its latest; the workers that are alive run 100 at once."
            in measured
        )


class TestWhatToLookOutFor:
    def test_a_window_longer_than_the_time_between_triggers(self) -> None:
        for overlap, then in (
            ("allow", "batches run beside one another"),
            ("queue", "a trigger whose earlier batch is unfinished waits for it"),
            ("skip", "a trigger whose earlier batch is unfinished emits nothing"),
        ):
            said = f"Its window of 120 min is longer than the 1 h between two triggers: {then}."
            assert levels(plan_for(window_for=7_200), overlap=overlap)[said] == "warning"
        assert not [text for text in levels(plan_for()) if "longer than" in text]

    def test_the_shortest_time_between_triggers_counts(self) -> None:
        found = levels(plan_for(cron="0 9,17 * * *", window_for=9 * 3600))
        assert [text for text in found if "longer than the 8 h between" in text]

    def test_stagger_is_proposed_where_it_helps(self) -> None:
        said = "Spread evenly, the busiest minute would have 17 events in place of 1,000."
        assert said in levels(plan_for(staggered=False))
        assert said not in levels(plan_for())
        assert not [text for text in levels(plan_for(staggered=False, events=1)) if "Spread evenly" in text]

    def test_a_paused_schedule(self) -> None:
        said = "It is paused: none of this happens until it is resumed."
        assert levels(plan_for(), enabled=False)[said] == "warning"
        assert said not in levels(plan_for())

    def test_a_schedule_that_is_not_due_within_the_week(self) -> None:
        said = "It has no trigger in the next seven days: these are the seven from its next one on."
        assert said in levels(plan_for(cron="0 3 1 * *"))
        assert said not in levels(plan_for())


@pytest.mark.parametrize(
    ("pace", "told"),
    [(0.2777, "0.278"), (1.0, "1"), (50.0, "50"), (99.95, "100"), (16_666.01, "16,667"), (1000, "1,000")],
)
def test_a_pace_has_three_digits(pace: float, told: str) -> None:
    assert told_pace(pace) == told
