"""The agent as a process against the real API, over HTTP."""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.core.cache import caches

from jobs.clock import database_clock
from jobs.models import BacklogRecord, Decision
from jobs.states import Status, WaitingFor
from sources.agents import tokens
from sources.models import AgentToken, Assignment, Source
from sources.planning import AVAILABILITY, KIND, subject_of
from tests.agent.processes import FINE, REFUSED, Machine
from tests.factories import make_record
from tests.sources.factories import backed_up, make_policy, make_source, record_of
from tests.waiting import PATIENCE

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]


@pytest.fixture(autouse=True)
def _no_requests_yet() -> Iterator[None]:
    """No request of one test counts against the limits of another."""
    caches["limits"].clear()
    yield
    caches["limits"].clear()


@pytest.fixture
def now() -> datetime:
    return database_clock()


@pytest.fixture
def laptop(now: datetime) -> Assignment:
    """Last backed up two days ago; its source did not answer, and is to be asked again in a quarter of an hour."""
    policy = make_policy(next_trigger_at=now + timedelta(days=1), alert_after=864_000)
    assignment = backed_up(policy, now - timedelta(days=2), source=make_source(name="laptop"))
    make_record(
        Status.WAITING,
        kind=KIND,
        queue=AVAILABILITY,
        subject=subject_of(assignment.pk),
        payload={"assignment": assignment.pk, "title": "laptop"},
        origin=policy.schedule,
        waiting_for=WaitingFor.RECHECK,
        run_after=now + timedelta(minutes=15),
        inserted_at=now - timedelta(hours=1),
        tried_at=now - timedelta(minutes=1),
        due_day=now.date() - timedelta(days=1),
        rank_day=now.date(),
    )
    return assignment


@pytest.fixture
def enrolled(machine: Machine, live_server: Any, laptop: Assignment) -> Machine:
    """The machine of an agent that was enrolled for `laptop`, by a code."""
    done = machine.process("enrol", live_server.url, tokens.make_code(laptop.source))
    assert (done.returncode, done.stderr) == (FINE, "")
    return machine


@pytest.mark.promise
def test_an_announcement_makes_what_waited_for_its_recheck_ready_at_its_true_place(enrolled, laptop, now):
    done = enrolled.process("announce", "--reason", "network")
    assert (done.returncode, done.stderr) == (FINE, "")
    assert done.stdout.startswith(f"{laptop.policy}: due, about to run, last backup ")
    record = record_of(laptop)
    assert (record.status, record.waiting_for, record.tried_at) == (Status.READY, None, None)
    assert record.rank_day == now.date() - timedelta(days=1)
    source = Source.objects.get()
    assert source.checked_in_at is not None
    assert source.checked_in_at >= now
    assert source.hostname
    assert "127.0.0.1" in source.addresses
    assert source.clock_skew == pytest.approx(0, abs=PATIENCE)
    logged = Decision.objects.get(what="checked in")
    assert logged.facts["reason"] == "network"


def test_a_snooze_holds_the_backup_back_until_it_is_ended_and_now_puts_it_first(enrolled, laptop, now):
    done = enrolled.process("snooze", "2h")
    assert done.returncode == FINE
    source = Source.objects.get()
    assert source.paused_until is not None
    assert source.paused_until - now == pytest.approx(timedelta(hours=2), abs=timedelta(seconds=PATIENCE))
    assert done.stdout == f"snoozed until {source.paused_until:%Y-%m-%d %H:%M}\n"
    assert "snoozed until" in enrolled.process("announce").stdout
    assert not BacklogRecord.objects.unfinished().exists()
    assert enrolled.process("unsnooze").returncode == FINE
    assert record_of(laptop).status == Status.READY
    assert enrolled.process("now").stdout.startswith("it begins as soon as")
    assert record_of(laptop).priority > 0


def test_a_code_works_once_and_rotating_ends_the_old_token_when_the_new_one_is_used_and_not_before(
    enrolled, live_server, laptop
):
    old = enrolled.stored()
    code = tokens.make_code(laptop.source)
    assert enrolled.process("enrol", live_server.url, code, "--force").returncode == FINE
    again = enrolled.process("enrol", live_server.url, code.lower(), "--force")
    assert (again.returncode, "the code is not accepted" in again.stderr) == (REFUSED, True)
    assert enrolled.process("status").returncode == FINE
    tokens.rotate(AgentToken.objects.get(revoked_at=None))  # as by a machine that died between the two
    assert enrolled.process("announce").returncode == FINE
    assert enrolled.process("rotate").returncode == FINE
    new = enrolled.stored()
    enrolled.store(**old)
    assert enrolled.process("status").returncode == REFUSED
    enrolled.store(**new)
    assert enrolled.process("status").returncode == FINE


def test_no_token_is_printed_or_stored_at_the_server_and_a_revoked_one_is_refused(enrolled, laptop):
    token = enrolled.stored()["token"]
    ended = [enrolled.process(command, "--json") for command in ("announce", "status", "now", "unsnooze")]
    assert all(token not in done.stdout + done.stderr for done in ended)
    stored = [json.dumps(list(model.objects.values()), default=str) for model in (AgentToken, Decision)]
    assert all(token not in text for text in stored)
    tokens.revoke(laptop.source)
    done = enrolled.process("announce")
    assert done.returncode == REFUSED
    assert "the token of laptop is not accepted" in done.stderr
