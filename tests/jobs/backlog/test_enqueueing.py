"""Enqueue: a program puts records on the backlog."""

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs import backlog
from jobs.backlog import NewRecord, enqueueing
from jobs.models import BacklogRecord, RetryPolicy
from jobs.states import Status, WaitingFor
from jobs.wakeups import CHANNEL
from tests.factories import NOON, claim_ready, make_record
from tests.jobs.backlog.changes import LATER, listening

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _several_statements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(enqueueing, "ROWS_A_STATEMENT", 2)


class TestEnqueue:
    def test_pairs_are_ready_in_the_home_queue_of_their_kind_in_the_order_given(self, kind):
        assert backlog.enqueue(kind, ((f"s{n}", {"n": n}) for n in range(5)), priority=3, now=NOON) == 5
        records = list(BacklogRecord.objects.order_by("id"))
        assert [(record.subject, record.payload) for record in records] == [(f"s{n}", {"n": n}) for n in range(5)]
        ready = {(record.status, record.queue, record.run_after, record.priority) for record in records}
        assert ready == {(Status.READY, "home", NOON, 3)}
        assert claim_ready(queue="home")[0].subject == "s0"

    def test_a_record_may_start_later_close_and_have_a_priority_of_its_own(self, kind):
        policy_id = RetryPolicy.objects.create(name="mine").pk
        items = [
            NewRecord("later", {"a": 1}, run_after=LATER, priority=0, closes_at=LATER + timedelta(hours=1)),
            NewRecord("past", run_after=(NOON - timedelta(days=1)).astimezone(ZoneInfo("Asia/Tokyo"))),
            NewRecord("now", run_after=NOON),
        ]
        backlog.enqueue(kind, items, queue="mine", priority=7, lane=3, retry_policy_id=policy_id, now=NOON)
        rows = BacklogRecord.objects.order_by("id").values_list(
            "subject", "status", "waiting_for", "run_after", "closes_at", "priority"
        )
        assert list(rows) == [
            ("later", Status.WAITING, WaitingFor.START, LATER, LATER + timedelta(hours=1), 0),
            ("past", Status.READY, None, NOON - timedelta(days=1), None, 7),
            ("now", Status.READY, None, NOON, None, 7),
        ]
        assert set(BacklogRecord.objects.values_list("queue", "lane", "retry_policy_id")) == {("mine", 3, policy_id)}
        assert set(BacklogRecord.objects.values_list("inserted_at", flat=True)) == {NOON}
        assert BacklogRecord.objects.get(subject="past").payload == {}

    def test_a_subject_that_is_on_the_backlog_is_left_out_and_one_that_ended_is_not(self, kind):
        make_record(Status.RUNNING, subject="runs")
        make_record(Status.SUCCEEDED, subject="ended")
        items = [("runs", {}), ("ended", {}), ("new", {}), ("new", {})]
        assert backlog.enqueue(kind, items) == 2
        assert backlog.enqueue(kind, items) == backlog.enqueue(kind, []) == 0

    def test_its_queue_is_woken_after_the_commit(self, kind):
        with listening(CHANNEL) as heard:
            backlog.enqueue(kind, [("a", {})], queue="woken by an enqueue")
            assert heard() == ["woken by an enqueue"]

    @pytest.mark.parametrize(
        ("item", "message"),
        [
            (("bad", {"when": NOON}), "the payload of 'bad' is not JSON: Object of type datetime"),
            (("bad", {"x": float("nan")}), "the payload of 'bad' is not JSON"),
            (("bad", {("a", 1): 1}), "the payload of 'bad' is not JSON"),
            (("bad", ["a list"]), "the payload of 'bad' is not a JSON object"),
            (("bad", {"x": "NUL \0"}), "the record 'bad' cannot be stored"),
            (("bad", {"x": "\ud800"}), "the record 'bad' cannot be stored"),
            (("bad \0", {}), r"the record 'bad \\x00' cannot be stored"),
            (("", {}), "a subject is a text of 1 to 200 characters"),
            (("x" * 201, {}), "a subject is a text of 1 to 200 characters"),
            ((7, {}), "a subject is a text of 1 to 200 characters, not 7"),
            (NewRecord("bad", run_after=datetime(2026, 3, 2)), "run_after of 'bad' has no time zone"),  # noqa: DTZ001
            (NewRecord("bad", closes_at=datetime(2026, 3, 2)), "closes_at of 'bad' has no time zone"),  # noqa: DTZ001
            (NewRecord("bad", priority=10**6), "the priority of 'bad' must be between ±100000"),
        ],
    )
    def test_what_cannot_be_stored_is_named_and_nothing_is_half_written(self, item, message, kind):
        items = [*[(f"good {n}", {}) for n in range(3)], item, ("also good", {})]
        with pytest.raises(ValueError, match=message):
            backlog.enqueue(kind, items)
        assert not BacklogRecord.objects.exists()

    @pytest.mark.parametrize(
        "arguments",
        [{"kind": ""}, {"kind": "x" * 51}, {"queue": ""}, {"priority": -(10**6)}, {"retry_policy_id": 12345}],
    )
    def test_a_call_that_cannot_be_right_is_refused(self, arguments):
        with pytest.raises(ValueError, match=r"must be between|1 to 50 characters|no retry policy 12345"):
            backlog.enqueue(arguments.pop("kind", "test"), [("a", {})], **arguments)

    @given(
        st.lists(
            st.tuples(
                st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=200),
                st.dictionaries(
                    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
                    st.recursive(
                        st.none()
                        | st.booleans()
                        | st.integers(-(2**63), 2**63)
                        | st.floats(-1e9, 1e9)
                        | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
                        lambda inner: st.lists(inner, max_size=3),
                        max_leaves=5,
                    ),
                    max_size=4,
                ),
            ),
            max_size=12,
        )
    )
    def test_whatever_text_and_json_is_put_there_comes_back_as_it_was(self, items):
        BacklogRecord.objects.all().delete()
        first = dict(reversed(items))
        assert backlog.enqueue("test", items) == len(first)
        stored = dict(BacklogRecord.objects.values_list("subject", "payload"))
        assert stored == first
