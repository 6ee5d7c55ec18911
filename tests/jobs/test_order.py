"""The claim order as pure functions, against each other; `test_claim_order` holds them against the database."""

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.order import KEYS, REASONS, claim_key, deciding_key, demoted, demoted_by_failure, in_claim_order
from jobs.outcomes import Claimed
from tests.factories import NOON, make_claimed

TODAY = date(2026, 3, 2)

RECORDS = st.builds(
    make_claimed,
    priority=st.sampled_from([-1, 0, 100, 1_000_000]),
    rank_day=st.sampled_from([None, TODAY, TODAY - timedelta(days=1)]),
    tried_at=st.sampled_from([None, NOON, NOON - timedelta(microseconds=1)]),
    expected_seconds=st.sampled_from([None, 0.0, 0.5, 3600.0]),
)


@given(st.lists(RECORDS, max_size=20))
def test_sorting_key_by_key_is_sorting_by_the_whole_key(records: list[Claimed]) -> None:
    assert in_claim_order(records) == sorted(records, key=claim_key)


@given(RECORDS, RECORDS)
def test_the_deciding_key_is_the_first_at_which_two_records_differ(one: Claimed, other: Claimed) -> None:
    decided = deciding_key(one, other)
    before = KEYS[: KEYS.index(decided)]
    assert all(getattr(one, name) == getattr(other, name) for name in before)
    assert decided == "id" or getattr(one, decided) != getattr(other, decided)


def test_every_key_has_a_reason_for_people() -> None:
    assert tuple(REASONS) == KEYS


@pytest.mark.parametrize(
    ("rank_day", "today", "after"),
    [
        (None, TODAY, TODAY),
        (TODAY - timedelta(days=3), TODAY, TODAY),
        (TODAY + timedelta(days=2), TODAY, TODAY + timedelta(days=2)),
    ],
)
def test_trying_in_vain_moves_a_record_behind_what_is_due_by_then_and_never_forward(
    rank_day: date | None, today: date, after: date
) -> None:
    assert demoted(rank_day, today) == after


@given(st.lists(RECORDS, min_size=2, max_size=20, unique_by=lambda record: record.id), st.data(), st.integers(1, 30))
def test_nobody_who_is_due_within_a_day_a_failure_stands_behind_who_failed(
    records: list[Claimed], data: st.DataObject, failures: int
) -> None:
    tried = data.draw(st.sampled_from(records))
    moved = tried._replace(rank_day=demoted_by_failure(tried.rank_day, TODAY, failures), tried_at=NOON)
    ordered = in_claim_order([moved if record is tried else record for record in records])
    behind = ordered[ordered.index(moved) + 1 :]
    until = TODAY + timedelta(days=min(failures, 7))
    assert not any(
        record.tried_at is None and record.priority == moved.priority and (record.rank_day or TODAY) <= until
        for record in behind
    )
    assert demoted_by_failure(tried.rank_day, TODAY, failures) <= max(tried.rank_day or TODAY, TODAY) + timedelta(
        days=7
    )


@given(st.lists(RECORDS, min_size=2, max_size=20, unique_by=lambda record: record.id), st.data())
def test_nobody_who_is_due_by_then_stands_behind_who_was_tried_in_vain(
    records: list[Claimed], data: st.DataObject
) -> None:
    """The promise that nobody starves: an untried record that is due comes before a demoted one of its priority."""
    tried = data.draw(st.sampled_from(records))
    moved = tried._replace(rank_day=demoted(tried.rank_day, TODAY), tried_at=NOON)
    ordered = in_claim_order([moved if record is tried else record for record in records])
    behind = ordered[ordered.index(moved) + 1 :]
    assert not any(
        record.tried_at is None and record.priority == moved.priority and (record.rank_day or TODAY) <= TODAY
        for record in behind
    )
