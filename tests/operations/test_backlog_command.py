"""`manage.py backlog`: what it shows, what it changes, what it refuses."""

import io
import json
import sys
from datetime import timedelta

import pytest
from django.core.management import call_command

from jobs import backlog, claiming
from jobs.models import Attempt, BacklogRecord, PausedQueue
from jobs.states import AttemptOutcome, Status
from operations.backlog.selection import locked_batches
from operations.management.commands import backlog as backlog_command
from tests.commands import command
from tests.factories import NOON, build_record, make_record, make_worker, status_of
from tests.threads import at_once

run, refused = command("backlog")
pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("kind_of_tests")]


LATER = NOON + timedelta(minutes=10)


class TestLooking:
    def test_shows_queues_workers_and_what_needs_attention_also_as_json(self):
        make_record()
        found = json.loads(run("--json"))
        queue = {row["name"]: row for row in found["queues"]}["default"]
        assert (queue["ready"], queue["at_least"], found["workers"]) == (1, [], [])
        assert found["attention"][0] == "No worker is alive: start one with `manage.py worker`."
        make_worker("host:7", queues={"backups": 16})
        backlog.pause_queue("backups", "the store is full")
        shown = run()
        for part in ("default", "host:7", "alive", "backups:16", "No worker serves queue default", "the store is full"):
            assert part in shown

    def test_lists_the_latest_first_or_ready_records_in_claim_order(self):
        last, first = make_record(priority=1), make_record(priority=2)
        waiting = make_record(Status.WAITING, priority=3)
        listed = json.loads(run("list", "--json", "--limit", 2))
        assert [(row["id"], row["status"]) for row in listed] == [(waiting.pk, "waiting"), (first.pk, "ready")]
        assert [row["id"] for row in json.loads(run("list", "--order", "claim", "--json"))] == [first.pk, last.pk]
        assert "--order claim is the order of ready" in refused("list", "--order", "claim", "--status", "failed")

    def test_filters_are_all_met(self):
        wanted = make_record(Status.FAILED, subject="a", last_error="No SPACE left", queue="backups", failures=1)
        for other in (
            {"subject": "b"}, {"last_error": "refused"}, {"queue": "default"}, {"status": Status.CANCELLED},
            {"kind": "backup"},
        ):  # fmt: skip
            same = {"subject": "a", "last_error": "No SPACE left", "queue": "backups", "failures": 1}
            make_record(**{"status": Status.FAILED, **same, **other})
        filters = ("--subject", "a", "--error", "space", "--queue", "backups", "--status", "failed", "--kind", "test")
        assert [row["id"] for row in json.loads(run("list", *filters, "--json"))] == [wanted.pk]
        assert "No SPACE left" in run("list", *filters)

    def test_shows_a_record_with_its_attempts_and_keeps_its_lease_token_to_itself(self):
        record = make_record(Status.RUNNING, last_error="refused\x1b[2J", payload={"title": "laptop"})
        Attempt.objects.create(
            record=record, number=1, queue="backups", started_at=NOON, ended_at=LATER, error="no route",
            outcome=AttemptOutcome.UNAVAILABLE,
        )  # fmt: skip
        shown = run("show", record.pk)
        assert "no route" in shown
        assert "10 min" in shown
        assert "\x1b" not in shown
        found = json.loads(run("show", record.pk, "--json"))
        assert found["attempts"][0]["outcome"] == "unavailable"
        assert found["payload"] == {"title": "laptop"}
        assert str(record.lease_token) not in shown + json.dumps(found)


class TestChanging:
    def test_cancels_by_id_and_tells_each_kind_of_end(self):
        ids = {status: make_record(status).pk for status in Status}
        printed = run("cancel", *ids.values(), 10**12, "--yes")
        for line in ("2 cancelled", "1 asked to stop", "3 had ended before", f"there is no record {10**12}"):
            assert line in printed

    def test_retries_by_id_and_names_what_goes_on_instead(self):
        old, new = make_record(Status.FAILED, subject="a"), make_record(subject="a")
        free = make_record(Status.CANCELLED)
        printed = run("retry", old.pk, free.pk, "--yes")
        assert "1 ready" in printed
        assert f"{old.pk}: record {new.pk} of the same subject continues" in printed
        found = json.loads(run("retry", old.pk, free.pk, "--yes", "--json"))
        assert found == {
            "ready": [free.pk], "running": [], "succeeded": [], "superseded": {str(old.pk): new.pk}, "missing": [],
        }  # fmt: skip

    def test_many_are_changed_in_batches_without_a_status_all_that_have_not_ended(self, monkeypatch):
        monkeypatch.setattr(backlog_command, "BATCH", 4)
        BacklogRecord.objects.bulk_create(build_record(status) for status in [*Status] * 2)
        errors, out = io.StringIO(), io.StringIO()
        call_command("backlog", "cancel", "--queue", "default", "--yes", "--json", stdout=out, stderr=errors)
        found = json.loads(out.getvalue())
        assert (len(found["cancelled"]), len(found["stopping"]), found["finished"]) == (4, 2, [])
        assert [line for line in errors.getvalue().splitlines() if line] == ["4 of 6", "6 of 6"]

    @pytest.mark.django_db(transaction=True)
    def test_a_claim_skips_the_batch_that_is_being_changed_and_what_changed_meanwhile_is_left_out(self):
        records = [make_record() for _ in range(4)]
        batches = locked_batches(BacklogRecord.objects.ready(), 2)
        assert next(batches) == [records[0].pk, records[1].pk]
        [claimed] = at_once(lambda: claiming.claim("default", worker_id=1, limit=1))
        assert [record.id for record in claimed] == [records[2].pk]
        assert list(batches) == [[records[3].pk]]
        assert len(claiming.claim("default", worker_id=1, limit=9)) == 3

    def test_a_dry_run_lists_and_changes_nothing(self):
        record = make_record(subject="seen")
        shown = run("cancel", "--all", "--dry-run")
        assert "seen" in shown
        assert "would cancel 1 record (1 ready); nothing was changed" in shown
        assert json.loads(run("cancel", "--all", "--dry-run", "--json")) == {"would": "cancel", "counts": {"ready": 1}}
        assert status_of(record) == Status.READY

    @pytest.mark.parametrize(("answer", "after"), [("YES", Status.CANCELLED), ("", Status.READY)])
    def test_asks_how_many_and_does_it_on_yes_alone(self, answer, after, monkeypatch):
        class Terminal(io.StringIO):
            def isatty(self) -> bool:
                return True

        asked: list[str] = []
        monkeypatch.setattr("builtins.input", lambda question: asked.append(question) or answer)
        record, ended = make_record(), make_record(Status.SUCCEEDED)
        monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
        assert "add --yes to cancel them, or --dry-run to see them" in refused("cancel", record.pk)
        monkeypatch.setattr(sys, "stdin", Terminal())
        assert run("retry", ended.pk) == "nothing is left to retry: 1 record (1 succeeded)\n"
        assert not asked
        assert ("nothing was changed" in run("cancel", record.pk)) == (after == Status.READY)
        assert asked == ["Cancel 1 record (1 ready)? [y/N] "]
        assert status_of(record) == after

    def test_what_matches_nothing_or_cannot_be_right_is_refused(self):
        for arguments, code, message in (
            (["list"], 1, "no record matches"),
            (["show", 7], 1, "there is no record 7"),
            (["cancel", 7, 8, "--yes"], 1, "there is no record 7, 8"),
            (["cancel", "--all", "--yes"], 1, "no record matches"),
            (["cancel", "--all", "--dry-run"], 1, "no record matches"),
            (["cancel"], 2, "name the records to cancel: ids, filters such as --status, or --all"),
            (["cancel", "--queue", "bakcups"], 2, "no queue 'bakcups'; there are arrivals, availability, backups"),
            (["list", "--error", "\0"], 2, "--error is empty, or is not text in UTF-8"),
            (["--watch", 1, "list"], 2, "leave out 'list'"),
            (["cancel", "seven"], 1, "'seven' is not an id of a record"),
            (["list", "--status", "done"], 1, "--status: 'done' is not a value that it takes"),
            (["destroy"], 1, "VERB: 'destroy' is not a value that it takes"),
        ):
            assert message in refused(*arguments, code=code)


def test_pauses_and_resumes_with_a_reason():
    make_record()
    assert "nothing is claimed" in run("pause", "default", "--reason", "the store is full")
    assert PausedQueue.objects.get().reason == "the store is full"
    assert claiming.claim("default", worker_id=1, limit=1) == []
    assert "it was paused before" in run("pause", "default")
    assert json.loads(run("resume", "default", "--json")) == {"queue": "default", "paused": False, "changed": True}
    assert "it was not paused" in run("resume", "default")
