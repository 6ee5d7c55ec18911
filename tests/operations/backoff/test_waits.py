"""A rule in words: its first waits, and when it gives up."""

import pytest

from jobs.retries import RNG, Failure, Rule, delay, phases
from operations.backoff.waits import bounds, describe_giving_up, describe_waits, outermost_records


class TestBounds:
    @pytest.mark.parametrize(
        ("rule", "failures", "expected"),
        [
            (Rule("constant", {"base": 7}), 5, (7, 7)),
            (Rule("exponential", {"least": 180, "unit": 60, "jitter": "equal"}), 3, (210, 420)),
            (Rule("sidekiq"), 3, (31, 121)),
            (Rule("buckets", max_delay=20), 3, (8, 20)),
            (Rule("phased"), 3, (36, 76)),
        ],
    )
    def test_are_the_shortest_and_the_longest_wait(
        self, rule: Rule, failures: int, expected: tuple[float, float]
    ) -> None:
        assert bounds(rule, failures) == expected

    @pytest.mark.parametrize("rule", [Rule("buckets"), Rule("sidekiq"), Rule("phased"), Rule("phased", max_delay=50)])
    def test_hold_every_wait(self, rule: Rule) -> None:
        for failures in (1, 2, 6):
            least, most = bounds(rule, failures)
            for record_id in range(300):
                assert least - 0.5 <= delay(rule, Failure(failures, record_id=record_id), RNG) <= most + 0.5
        assert [round(phases.phase(record_id), 3) for record_id in outermost_records()] == [0, 1]


class TestWords:
    def test_progressive_waits_for_sweeps(self) -> None:
        words = describe_waits(Rule("progressive"))
        assert words.startswith("by sweeps: every 5 min up to 1 d, every 1 h up to 7 d")
        assert words.endswith("every 8 d up to 360 d")

    @pytest.mark.parametrize(
        ("rule", "message"),
        [
            (Rule("constant"), "It never gives up."),
            (Rule("constant", max_failures=1), "It gives up at the first failure: nothing is retried."),
            (Rule("constant", {"base": 60}, max_failures=25),
             "It gives up at failure 25, about 24 min after the first."),
            (Rule("constant", {"base": 60}, give_up_after=3_600),
             "It gives up at failure 61, about 1 h after the first."),
            (Rule("progressive"), "It gives up when no sweep covers it any more, after 360 d."),
            (Rule("progressive", give_up_after=86_400), "It gives up at failure 289, about 1 d after the first."),
            (Rule("constant", {"base": 1}, max_failures=5_000, give_up_after=864_000),
             "It gives up at failure 5,000 or at the first failure later than 10 d after the first, which is more than "
             "1,000 failures away."),
        ],
    )  # fmt: skip
    def test_when_it_gives_up(self, rule: Rule, message: str) -> None:
        assert describe_giving_up(rule) == message
