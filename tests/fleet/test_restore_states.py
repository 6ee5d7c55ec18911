"""The state of a restore: command, admin and API say that one waits, and why, as its record explains it."""

import json
import re
from html import unescape
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from fleet.explaining.restores import states_of
from jobs import settling
from jobs.backlog import pausing
from jobs.models import BacklogRecord, Decision
from jobs.outcomes import Failed, Succeeded
from jobs.states import Status
from sources.models import Restore
from storage.restoring.base import Report
from tests.commands import command
from tests.factories import make_record, make_worker
from tests.sources.factories import claim, make_assignment, settle

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("orders_run_here")]


def make_restore(status: Status = Status.READY, **fields: Any) -> Restore:
    """A restore of one file that was asked for just now, and whose record has that status."""
    restore = Restore.objects.create(
        assignment=make_assignment(), point="20260301T090000Z", to="folder", asked_by="kim", asked_at=timezone.now(),
        **fields,
    )  # fmt: skip
    record = {"kind": "restore", "queue": "restores", "subject": str(restore.pk), "payload": {"restore": restore.pk}}
    restore.record_id = make_record(status, **record).pk
    restore.save()
    return restore


def timeless(text: str) -> str:
    """The text without durations, since each surface is asked a moment later."""
    return re.sub(r"[\d.]+ (ms|s)\b", "", text)


def state_of(client: Client, restore: Restore) -> tuple[str, list[str]]:
    """Its state and the codes of its reasons, which all surfaces agree on."""
    told = client.get(f"/api/restores/{restore.pk}").json()
    texts = [timeless(each["text"]) for each in told["reasons"]]
    run, _ = command("restores")
    listed, shown = json.loads(run("list", "--json"))[0], json.loads(run("show", restore.pk, "--json"))
    for facts in (listed, shown):
        assert (facts["outcome"], [*map(timeless, facts["why"])]) == (told["state"], texts)
    for path in ("", f"{restore.pk}/change/"):
        page = unescape(client.get(f"/admin/sources/restore/{path}").content.decode())
        assert told["state"] in page
        assert all(each in timeless(re.sub("</?code>", "`", page)) for each in texts if path)
    return told["state"], [each["code"] for each in told["reasons"]]


def codes_of(restore: Restore) -> list[str]:
    return [each.code for each in states_of([restore], timezone.now())[restore.pk].reasons]


def test_it_waits_until_a_worker_has_it_and_every_surface_says_why(admin_client: Client) -> None:
    restore = make_restore()
    assert state_of(admin_client, restore) == ("waiting", ["unserved"])
    make_worker(queues={"restores": 1})
    assert codes_of(restore) == ["ready"]
    pausing.pause_queue("restores", "the disk is full")
    assert codes_of(restore) == ["queue_paused"]
    pausing.hold("a storm", by="kim")
    assert codes_of(restore) == ["on_hold"]
    pausing.release(by="kim")
    pausing.resume_queue("restores")
    claimed = claim("restores", timezone.now())
    assert state_of(admin_client, restore) == ("under way", [])
    settling.settle([(claimed, Failed("the disk is full"))])
    assert state_of(admin_client, restore) == ("waiting", ["backoff", "backoff"])
    assert "the disk is full" in " ".join(command("restores")[0]("list").split())


@pytest.mark.parametrize(
    ("status", "outcome", "state"),
    [
        (Status.SUCCEEDED, "incomplete", "incomplete"),
        (Status.FAILED, "failed", "failed"),
        (Status.CANCELLED, "", "cancelled"),  # the row follows within a minute
        (Status.READY, "failed", "waiting"),  # retried
    ],
)
def test_one_that_has_ended_has_its_outcome_unless_it_was_retried(status: Status, outcome: str, state: str) -> None:
    restore = make_restore(status, outcome=outcome)
    make_worker(queues={"restores": 1})
    assert states_of([restore], timezone.now())[restore.pk].word == state
    BacklogRecord.objects.all().delete()
    assert states_of([restore], timezone.now())[restore.pk].word == (outcome or "cancelled")


@pytest.mark.parametrize("begins", ["(dry run) ", "(only a look) ", ""])  # of this version, of 0.1.0
def test_a_dry_run_is_logged_as_one_whichever_version_has_enqueued_it(begins: str) -> None:
    restore = make_restore(dry_run=bool(begins))
    facts = {"restore": restore.pk, "title": f"{begins}nas to /srv/x"}
    BacklogRecord.objects.filter(pk=restore.record_id).update(payload=facts)
    settle(claim("restores", now := timezone.now()), Succeeded(Report(restore.point, "/srv/x", files=2)), now)
    text = Decision.objects.get(what="succeeded").text
    assert ("nothing was written; it would be 2 files" in text) is bool(begins)
