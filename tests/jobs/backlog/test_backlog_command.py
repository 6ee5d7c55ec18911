"""`manage.py backlog`: what it shows, what it changes, what it refuses."""

import io
import json
import sys
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command

from jobs import backlog, claiming
from jobs.models import Attempt, BacklogRecord, PausedQueue
from jobs.states import UNFINISHED, AttemptOutcome, Status
from operations.backlog.selection import locked_batches
from tests.factories import NOON, build_record, make_record, make_worker
from tests.jobs.backlog_command import refused, run
from tests.threads import at_once

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("plain_kind")]


LATER = NOON + timedelta(minutes=10)


def status_of(record: BacklogRecord) -> Status:
    return Status(BacklogRecord.objects.values_list("status", flat=True).get(pk=record.pk))


class TestLooking:
    def test_shows_queues_workers_and_what_needs_attention(self):
        make_worker("host:7", queues={"backups": 16})
        make_record()
        backlog.pause_queue("backups", "the store is full")
        shown = run()
        for part in ("default", "host:7", "alive", "backups:16", "No worker serves queue default", "the store is full"):
            assert part in shown

    def test_shows_the_same_as_json(self):
        make_record()
        found = json.loads(run("--json"))
        queue = {row["name"]: row for row in found["queues"]}["default"]
        assert (queue["ready"], queue["at_least"], found["workers"]) == (1, [], [])
        assert found["attention"] == ["No worker is alive: start one with `manage.py worker`."]

    def test_lists_the_latest_first_and_no_more_than_asked(self):
        records = [make_record(status) for status in Status]
        listed = json.loads(run("list", "--json", "--limit", 2))
        assert [row["id"] for row in listed] == [records[5].pk, records[4].pk]
        assert [row["status"] for row in listed] == ["cancelled", "failed"]

    def test_lists_ready_records_in_claim_order(self):
        last, first = make_record(priority=1), make_record(priority=2)
        make_record(Status.WAITING, priority=3)
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

    def test_nothing_found_is_exit_code_1(self):
        assert refused("list", code=1) == "no record matches"
        assert "there is no record 7" in refused("show", 7, code=1)


class TestChanging:
    def test_cancels_by_id_and_tells_each_kind_of_end(self):
        ids = {status: make_record(status).pk for status in Status}
        told = run("cancel", *ids.values(), 10**12, "--yes")
        for line in ("2 cancelled", "1 told to stop", "3 had ended before", f"there is no record {10**12}"):
            assert line in told

    def test_retries_by_id_and_names_what_goes_on_instead(self):
        old, new = make_record(Status.FAILED, subject="a"), make_record(subject="a")
        free = make_record(Status.CANCELLED)
        told = run("retry", old.pk, free.pk, "--yes")
        assert "1 ready" in told
        assert f"{old.pk}: record {new.pk} of the same subject goes on" in told
        found = json.loads(run("retry", old.pk, free.pk, "--yes", "--json"))
        assert found == {
            "ready": [free.pk], "running": [], "succeeded": [], "superseded": {str(old.pk): new.pk}, "missing": [],
        }  # fmt: skip

    def test_cancel_without_a_status_takes_what_has_not_ended(self):
        records = {status: make_record(status) for status in Status}
        found = json.loads(run("cancel", "--queue", "default", "--yes", "--json"))
        assert sorted(found["cancelled"] + found["stopping"]) == sorted(records[status].pk for status in UNFINISHED)
        assert found["finished"] == []

    def test_many_are_changed_in_batches_and_nothing_is_left_out(self, capsys):
        BacklogRecord.objects.bulk_create(build_record() for _ in range(2500))
        errors, out = io.StringIO(), io.StringIO()
        call_command("backlog", "cancel", "--all", "--yes", "--json", stdout=out, stderr=errors)
        assert len(json.loads(out.getvalue())["cancelled"]) == 2500
        told = [line for line in errors.getvalue().splitlines() if line]
        assert told == ["1,000 of 2,500", "2,000 of 2,500", "2,500 of 2,500"]
        assert not BacklogRecord.objects.unfinished().exists()

    def test_what_a_worker_took_meanwhile_is_no_longer_among_the_ready(self):
        records = [make_record() for _ in range(4)]
        batches = locked_batches(BacklogRecord.objects.ready(), 2)
        assert next(batches) == [records[0].pk, records[1].pk]
        backlog.cancel([records[2].pk])
        assert list(batches) == [[records[3].pk]]

    @pytest.mark.django_db(transaction=True)
    def test_a_claim_passes_by_the_batch_that_is_being_changed(self):
        record = make_record()
        batches = locked_batches(BacklogRecord.objects.ready(), 2)
        assert next(batches) == [record.pk]
        assert at_once(lambda: claiming.claim("default", worker_id=1, limit=1)) == [[]]
        assert list(batches) == []
        assert len(claiming.claim("default", worker_id=1, limit=1)) == 1

    def test_a_dry_run_lists_and_changes_nothing(self):
        record = make_record(subject="seen")
        shown = run("cancel", "--all", "--dry-run")
        assert "seen" in shown
        assert "would cancel 1 record (1 ready); nothing was changed" in shown
        assert json.loads(run("cancel", "--all", "--dry-run", "--json")) == {"would": "cancel", "counts": {"ready": 1}}
        assert status_of(record) == Status.READY

    @pytest.mark.parametrize(("answer", "after"), [("YES", Status.CANCELLED), ("", Status.READY)])
    def test_asks_how_many_and_does_it_on_yes_alone(self, answer, after, monkeypatch):
        record = make_record()
        asked = self.answer(monkeypatch, answer)
        assert ("nothing was changed" in run("cancel", record.pk)) == (after == Status.READY)
        assert asked == ["Cancel 1 record (1 ready)? [y/N] "]
        assert status_of(record) == after

    def test_where_nothing_would_change_it_does_not_ask(self, monkeypatch):
        record = make_record(Status.SUCCEEDED)
        asked = self.answer(monkeypatch, "y")
        assert run("retry", record.pk) == "nothing is left to retry: 1 record (1 succeeded)\n"
        assert not asked

    def test_with_nobody_to_ask_it_says_what_to_do(self, monkeypatch):
        record = make_record()
        monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
        assert "add --yes to cancel them, or --dry-run to see them" in refused("cancel", record.pk)
        assert status_of(record) == Status.READY

    def answer(self, monkeypatch: pytest.MonkeyPatch, said: str) -> list[str]:
        class Terminal(io.StringIO):
            def isatty(self) -> bool:
                return True

        asked: list[str] = []
        monkeypatch.setattr(sys, "stdin", Terminal())
        monkeypatch.setattr("builtins.input", lambda question: asked.append(question) or said)
        return asked

    def test_nothing_that_matches_is_exit_code_1(self):
        assert refused("cancel", 7, 8, "--yes", code=1) == "there is no record 7, 8"
        assert refused("cancel", "--all", "--yes", code=1) == "no record matches"
        assert refused("cancel", "--all", "--dry-run", code=1) == "no record matches"

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["cancel"], "name the records to cancel: ids, filters as --status, or --all"),
            (["cancel", "--queue", "bakcups"], "no queue 'bakcups'; there are arrivals, availability, backups"),
            (["list", "--error", "\0"], "--error is empty, or no text"),
            (["--watch", 1, "list"], "leave out 'list'"),
        ],
    )
    def test_bad_usage_is_exit_code_2_and_says_what_to_do(self, arguments, message):
        assert message in refused(*arguments)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["cancel", "seven"], "'seven' is no id of a record"),
            (["list", "--status", "done"], "invalid choice: 'done'"),
            (["destroy"], "invalid choice: 'destroy'"),
        ],
    )
    def test_arguments_that_cannot_be_right_are_refused(self, arguments, message):
        with pytest.raises(CommandError, match="Error") as caught:
            run(*arguments)
        assert message in str(caught.value)


class TestPausing:
    def test_pauses_and_resumes_with_a_reason(self):
        make_record()
        assert "nothing is claimed" in run("pause", "default", "--reason", "the store is full")
        assert PausedQueue.objects.get().reason == "the store is full"
        assert claiming.claim("default", worker_id=1, limit=1) == []
        assert "it was paused before" in run("pause", "default")
        assert json.loads(run("resume", "default", "--json")) == {"queue": "default", "paused": False, "changed": True}
        assert "it was not paused" in run("resume", "default")
