"""What is said of a plan: the verdict first, then what to look out for."""

from typing import Any

from schedules.plan import Plan
from schedules.plan_load import profile_of
from schedules.plan_queue import Gate
from schedules.plan_sentences import verdict_of
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

    def test_says_when_more_comes_than_goes(self) -> None:
        found = levels(plan_for(events=9_000, window_for=0, gate=SLOW))
        [more] = [text for text in found if "more and more is left over" in text]
        assert more.startswith("The throttle slow is asked for 2.5 times what it lets through")
        assert found[more] == "bad"


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

    def test_stagger_is_proposed_where_it_helps(self) -> None:
        said = "Spread evenly, the busiest minute would have 17 events in place of 1,000."
        assert said in levels(plan_for(staggered=False))
        assert said not in levels(plan_for())
        assert not [text for text in levels(plan_for(staggered=False, events=1)) if "Spread evenly" in text]
