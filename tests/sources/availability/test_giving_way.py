"""What is asked for longer in another queue, and a long first backup that gives way to much shorter ones that may be
waking up."""

import socket
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from jobs import settling
from jobs.handlers import Run
from jobs.models import BacklogRecord
from jobs.outcomes import ClaimedRecord, Handoff, Postponed, Unavailable
from jobs.states import Status
from sources import planning
from sources.availability import check, giving_way, wake
from sources.models import Assignment, Policy, Source
from sources.models.source import FIRST_BYTES_PER_SECOND
from tests.factories import claim_ready, make_claimed
from tests.sources.factories import claimed_for, make_assignment, make_policy, make_source, settle
from tests.sources.planning.planned import DAY, HOUR, NINE

SECOND = timedelta(seconds=1)
LONG, SHORT = 3 * 3_600, 600


def first_of(policy: Policy, seconds: int, **fields: Any) -> Assignment:
    """An assignment whose first backup takes so long, as far as its agent knows."""
    return make_assignment(policy, make_source(used_bytes=round(seconds * FIRST_BYTES_PER_SECOND), **fields))


def asked(seconds: int = SHORT, **fields: Any) -> tuple[ClaimedRecord, ClaimedRecord]:
    """The records of one that takes so long and may sleep, and of one that takes three hours; both asked at nine."""
    policy = make_policy(wake_allowed=True)
    for each in ({"seconds": seconds, "mac_address": "02:00:00:aa:bb:cc"} | fields, {"seconds": LONG}):
        first_of(policy, **each)
    planning.emit_due(NINE)
    short, long = claim_ready(2, planning.AVAILABILITY, NINE)
    return short, long


@pytest.mark.django_db
class TestOfALongOne:
    @pytest.mark.parametrize(
        ("fields", "after", "expected"),
        [
            ({}, SECOND, True),
            ({}, SECOND / 20, False),  # it may answer in a moment
            ({"mac_address": ""}, SECOND, False),
            ({"wake_allowed": False}, SECOND, False),
            ({"last_woken_at": NINE - HOUR}, SECOND, False),  # in vain
            ({"seconds": LONG // 3}, SECOND, False),  # not much shorter
            ({}, 2 * DAY, False),
        ],
    )
    def test_a_unit_is_left_to_a_short_one_that_may_be_woken(
        self, fields: dict[str, Any], after: timedelta, expected: bool
    ) -> None:
        _, long = asked(**fields)
        BacklogRecord.objects.update(inserted_at=NINE)
        assert giving_way.may_give_way(long, Source())
        assert giving_way.gives_way(long, NINE + after) is expected

    def test_a_unit_is_left_to_a_short_one_that_was_woken_until_that_was_in_vain(self) -> None:
        short, long = asked()
        BacklogRecord.objects.update(inserted_at=NINE)
        Source.objects.exclude(mac_address="").update(last_woken_at=NINE + 60 * SECOND)
        policy = Policy.objects.get()
        settle(short, wake.after_a_packet(policy, "silent"), NINE + 60 * SECOND)
        assert giving_way.gives_way(long, NINE + 61 * SECOND)
        BacklogRecord.objects.filter(pk=short.id).update(status=Status.READY, waiting_for=None)
        [short] = claim_ready(1, planning.AVAILABILITY, NINE + 240 * SECOND)
        settle(short, Unavailable("silent", 900), NINE + 300 * SECOND)
        assert not giving_way.gives_way(long, NINE + 301 * SECOND)

    def test_what_gives_way_is_asked_again_once_the_other_may_be_awake(self) -> None:
        _, long = asked()
        BacklogRecord.objects.update(inserted_at=NINE)
        assignment = Assignment.objects.get(pk=planning.assignment_in(long.payload))
        settle(long, giving_way.put_off(assignment, NINE + SECOND), NINE + SECOND)
        row = BacklogRecord.objects.get(pk=long.id)
        assert (row.run_after, row.due_day, row.rank_day, row.tried_at) == (NINE + 241 * SECOND, None, None, None)

    @pytest.mark.django_db(transaction=True)
    def test_the_handler_asks_and_then_looks(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async def answers(*_: Any) -> Any:
            return check.probes.Answer(True, "it answered")

        monkeypatch.setattr(check.probes, "ask", answers)
        short, long = asked()
        BacklogRecord.objects.update(inserted_at=NINE)
        monkeypatch.setattr(giving_way, "database_clock", lambda: NINE + SECOND)
        found = [async_to_sync(check.ask_source)(Run(each)) for each in (short, long)]
        assert [type(each) for each in found] == [Handoff, Postponed]


@pytest.mark.parametrize(
    ("fields", "mac_address"),
    [({"expected_seconds": 7_199.0}, ""), ({"due_day": NINE.date()}, ""), ({}, "02:00:00:aa:bb:cc"), ({}, "")],
)
def test_nothing_else_gives_way(fields: dict[str, Any], mac_address: str, settings: Any) -> None:
    settings.ORDER_WITHOUT = [] if fields or mac_address else ["waking"]
    record = make_claimed(**({"expected_seconds": 7_200.0} | fields))
    assert not giving_way.may_give_way(record, Source(mac_address=mac_address))


def test_a_first_backup_that_no_unit_was_foreseen_for_keeps_its_place_until_its_first_packet(settings: Any) -> None:
    policy, first = Policy(wake_wait=180, recheck_after=900), make_claimed()
    assignment = Assignment(source=Source(), policy=policy)
    assert wake.not_foreseen(first, assignment, "silent").keeps_place
    assert not wake.not_foreseen(make_claimed(due_day=NINE.date()), assignment, "silent").keeps_place
    settings.ORDER_WITHOUT = ["waking"]
    assert not wake.not_foreseen(first, assignment, "silent").keeps_place
    settings.ORDER_WITHOUT, assignment.source.last_woken_at = [], NINE
    assert not wake.not_foreseen(first, assignment, "silent").keeps_place


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("queue", "connect_timeout", "outcome"),
    [
        (planning.ARRIVALS, 60.0, Handoff),
        (planning.ARRIVALS, 0.02, Unavailable),
        (planning.AVAILABILITY, 0.02, Unavailable),
    ],
)
def test_what_is_silent_for_the_seconds_of_an_arrival_is_asked_again_for_longer(
    queue: str, connect_timeout: float, outcome: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "ARRIVAL_SECONDS", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # nothing accepts
        source = make_source(kind="sftp", address="127.0.0.1", port=silent.getsockname()[1])
        assignment = make_assignment(make_policy(connect_timeout=connect_timeout), source)
        found = async_to_sync(check.ask_source)(Run(claimed_for(assignment, queue=queue)))
    assert isinstance(found, outcome)
    assert not isinstance(found, Handoff) or (found.queue, "with the 60 s" in found.found) == (
        planning.AVAILABILITY,
        True,
    )


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("payload", [{}, {"assignment": "all"}, {"assignment": None}], ids=str)
def test_a_record_without_an_assignment_that_another_program_has_put_there_costs_no_other_its_question(
    payload: dict[str, object],
) -> None:
    bad, good = make_assignment(), make_assignment()
    planning.emit_due()
    BacklogRecord.objects.filter(subject=planning.subject_of(bad.pk)).update(payload=payload)
    claimed = {each.subject: each for each in claim_ready(2, planning.AVAILABILITY, now=None)}
    found = check._look_up(list(claimed.values()))
    assert found[claimed[planning.subject_of(good.pk)].id] == good
    cancelled = claimed[planning.subject_of(bad.pk)]
    assert settling.settle([(cancelled, found[cancelled.id])]).written == {cancelled.id}  # type: ignore[list-item]
