"""The considerations of a claim, in the log of decisions."""

import pytest

from jobs import claiming
from jobs.models import BacklogRecord, Decision, Level
from operations import considerations
from tests.factories import NOON, build_record, make_lane, make_record, make_throttle, make_worker

pytestmark = pytest.mark.django_db


class TestConsidered:
    def consider(self, wanted: int) -> Decision:
        worker = make_worker()
        claimed = claiming.claim("default", worker_id=worker.pk, limit=wanted, now=NOON)
        considerations.consider("default", claimed, wanted=wanted, worker_id=worker.pk, now=NOON)
        return Decision.objects.get(level=Level.CONSIDERING)

    def test_it_names_the_candidates_and_the_key_that_decided(self) -> None:
        short = make_record(expected_seconds=10.0, payload={"title": "laptop"})
        long = make_record(expected_seconds=900.0, payload={"title": "server"})
        line = self.consider(1)
        assert [row["id"] for row in line.facts["claimed"]] == [short.pk]
        assert [row["id"] for row in line.facts["left"]] == [long.pk]
        assert line.facts["decided_by"] == "expected_seconds"
        assert line.text == (
            "1 of 1 wanted were claimed from default; laptop came before server: a shorter last duration, or none yet"
        )

    def test_without_another_nothing_decided_and_a_claim_that_found_none_is_no_line(self) -> None:
        considerations.consider("default", [], wanted=4, worker_id=make_worker().pk, now=NOON)
        make_record()
        line = self.consider(5)
        assert (line.facts["decided_by"], line.facts["left"], line.facts["count"]) == (None, [], 1)
        assert line.text.endswith("no other was ready")

    def test_the_lanes_of_what_was_claimed_are_looked_at_together(self) -> None:
        lane = make_lane(make_throttle(1))
        make_record(priority=9)
        make_record(priority=8, lane=lane)
        behind = make_record(priority=7, lane=lane)
        other = make_record(priority=1)
        line = self.consider(2)
        assert [row["id"] for row in line.facts["left"]] == [behind.pk, other.pk]

    def test_the_number_of_candidates_that_are_kept_is_bounded(self) -> None:
        BacklogRecord.objects.bulk_create(build_record() for _ in range(60))
        facts = self.consider(40).facts
        assert (len(facts["claimed"]), facts["count"], len(facts["left"])) == (20, 40, 5)


def test_what_a_full_throttle_held_up_is_told_as_that() -> None:
    lane, worker = make_lane(make_throttle(1)), make_worker()
    for _ in range(3):
        make_record(lane=lane, priority=5, payload={"title": "held"})
    make_record(priority=1)
    claiming.claim("default", worker_id=worker.pk, limit=1, now=NOON)
    claimed = claiming.claim("default", worker_id=worker.pk, limit=4, now=NOON)
    considerations.consider("default", claimed, wanted=4, worker_id=worker.pk, now=NOON)
    line = Decision.objects.get()
    assert line.facts["decided_by"] == considerations.HELD
    assert "held was held by its throttle" in line.text
