"""A source that has just checked in is given some seconds; what needs longer has its policy's time in another queue."""

import socket

import pytest
from asgiref.sync import async_to_sync

from jobs import settling
from jobs.handlers import Run
from jobs.models import BacklogRecord
from jobs.outcomes import Handoff, Unavailable
from sources import planning
from sources.availability import check
from tests.factories import claim_ready
from tests.sources.factories import claimed_for, make_assignment, make_policy, make_source


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
