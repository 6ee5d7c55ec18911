"""The claim order as pure functions, against each other; `test_claim_order` holds them against the database."""

from datetime import date, timedelta

from hypothesis import given
from hypothesis import strategies as st

from jobs.order import KEYS, REASONS, deciding_key, demoted, demoted_by_failure, in_claim_order
from jobs.outcomes import ClaimedRecord
from tests.factories import NOON, make_claimed

TODAY = date(2026, 3, 2)

RECORDS = st.builds(
    make_claimed,
    priority=st.sampled_from([-1, 0, 100, 1_000_000]),
    rank_day=st.sampled_from([None, TODAY, TODAY - timedelta(days=1)]),
    tried_at=st.sampled_from([None, NOON, NOON - timedelta(microseconds=1)]),
    expected_seconds=st.sampled_from([None, 0.0, 0.5, 3600.0]),
)


@given(RECORDS, RECORDS)
def test_the_deciding_key_is_the_first_at_which_two_records_differ(one: ClaimedRecord, other: ClaimedRecord) -> None:
    decided = deciding_key(one, other)
    before = KEYS[: KEYS.index(decided)]
    assert all(getattr(one, name) == getattr(other, name) for name in before)
    assert decided == "id" or getattr(one, decided) != getattr(other, decided)


def test_every_key_has_a_reason_for_people() -> None:
    assert tuple(REASONS) == KEYS


@given(st.lists(RECORDS, min_size=2, max_size=20, unique_by=lambda record: record.id), st.data(), st.integers(0, 30))
def test_what_is_due_by_then_never_stands_behind_what_was_silent_or_failed(
    records: list[ClaimedRecord], data: st.DataObject, failures: int
) -> None:
    """The promise that nothing starves. 0 failures: it was silent."""
    tried = data.draw(st.sampled_from(records))
    day = demoted_by_failure(tried.rank_day, TODAY, failures) if failures else demoted(tried.rank_day, TODAY)
    moved = tried._replace(rank_day=day, tried_at=NOON)
    ordered = in_claim_order([moved if record is tried else record for record in records])
    until = TODAY + timedelta(days=min(failures, 7))
    assert not any(
        record.tried_at is None and record.priority == moved.priority and (record.rank_day or TODAY) <= until
        for record in ordered[ordered.index(moved) + 1 :]
    )
    assert day <= max(tried.rank_day or TODAY, TODAY) + timedelta(days=7)
