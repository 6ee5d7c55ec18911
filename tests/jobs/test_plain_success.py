"""A success without hook or key is settled by a statement of its own, which does what the general one does."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs import claiming, settling
from jobs.handlers import Kind, registry
from jobs.models import Attempt, BacklogRecord
from jobs.outcomes import Succeeded
from tests.factories import NOON, claim_ready, make_record
from tests.jobs.stale_claims import STALE
from tests.threads import at_once

pytestmark = pytest.mark.django_db(transaction=True)

LATER = NOON + timedelta(seconds=30)

FACTS = st.fixed_dictionaries(
    {
        "priority": st.integers(-9, 9),
        "rank_day": st.sampled_from([None, NOON.date()]),
        "due_day": st.sampled_from([None, NOON.date()]),
        "tried_at": st.sampled_from([None, NOON - timedelta(hours=1)]),
        "expected_seconds": st.sampled_from([None, 1.5]),
        "failures": st.integers(0, 3),
        "last_error": st.sampled_from(["", "it said no"]),
        "attempt": st.integers(0, 5),
        "closes_at": st.sampled_from([None, NOON + timedelta(hours=1)]),
        "payload": st.sampled_from([{}, {"title": "Büro"}]),
    }
)


@pytest.fixture
def kinds(monkeypatch):
    monkeypatch.setattr(registry, "kinds", dict(registry.kinds))
    registry.add(Kind("plain"))
    registry.add(Kind("hooked", after_settle=lambda results, now: None))


IDENTITY = ("id", "record_id", "kind", "subject", "worker_id")


def without_identity(row: dict) -> dict:
    return {name: value for name, value in row.items() if name not in IDENTITY}


@given(facts=FACTS)
def test_leaves_the_same_row_and_the_same_attempt_as_the_general_statement(kinds, facts):
    for kind in ("plain", "hooked"):
        make_record(kind=kind, **facts)
    one, other = claim_ready(2)
    settling.settle([(one, Succeeded())], now=LATER)
    settling.settle([(other, Succeeded())], now=LATER)
    rows = [BacklogRecord.objects.filter(pk=record.id).values().get() for record in (one, other)]
    attempts = [Attempt.objects.filter(record_id=record.id).values().get() for record in (one, other)]
    assert without_identity(rows[0]) == without_identity(rows[1])
    assert without_identity(attempts[0]) == without_identity(attempts[1])


class TestFence:
    @pytest.mark.parametrize("what", STALE)
    def test_a_result_of_another_attempt_worker_or_token_changes_nothing_and_the_others_of_its_batch_count(self, what):
        make_record(attempt=6)
        make_record()
        make_record()
        one, stale, another = claim_ready(3)
        before = BacklogRecord.objects.filter(pk=stale.id).values().get()
        settled = settling.settle([(one, Succeeded()), (STALE[what](stale), Succeeded()), (another, Succeeded())])
        assert (settled.written, settled.lost) == ({one.id, another.id}, {stale.id})
        assert BacklogRecord.objects.filter(pk=stale.id).values().get() == before
        assert Attempt.objects.count() == 2

    def test_a_success_settled_again_also_at_the_same_moment_counts_once(self):
        for _ in range(5):
            make_record()
            [record] = claim_ready()
            at_once(*[lambda record=record: settling.settle([(record, Succeeded())]).lost] * 2)
            assert not settling.settle([(record, Succeeded())]).lost
        assert Attempt.objects.count() == 5


def test_a_renewal_tells_of_a_cancel():
    make_record()
    [record] = claim_ready()
    BacklogRecord.objects.filter(pk=record.id).update(cancel_requested_at=NOON)
    renewed = claiming.renew({record.id: record.lease_token}, worker_id=record.worker_id, now=LATER)
    assert renewed.owned == renewed.cancelled == {record.id}
