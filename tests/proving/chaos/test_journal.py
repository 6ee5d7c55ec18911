"""The journals of the workers, written and read back."""

import json

from jobs.handlers import Run
from proving.chaos import journal
from proving.chaos.collect import complaints, standstills
from proving.chaos.facts import Journal, ProcessFact
from proving.chaos.journal import JournalFile
from tests.factories import make_claimed

PID = 7


def test_what_began_and_ended_is_read_back(tmp_path):
    file = JournalFile(tmp_path / "journal")
    ends = Run(make_claimed(exclusive_key="key 1", payload={"throttles": [3, 4]}))
    is_cut_off = Run(make_claimed())
    file.began(ends)
    file.began(is_cut_off)
    file.ended(ends, "Succeeded")
    first, second = journal.read(tmp_path / "journal", PID).executions
    assert (first.record_id, first.attempt, first.pid) == (ends.record.id, 1, PID)
    assert (first.exclusive_key, first.throttles, first.outcome) == ("key 1", (3, 4), "Succeeded")
    assert first.ended is not None
    assert first.began <= first.ended
    assert (second.record_id, second.ended, second.outcome) == (is_cut_off.record.id, None, "")


def test_the_same_attempt_begun_twice_is_two_executions(tmp_path):
    file = JournalFile(tmp_path / "journal")
    run = Run(make_claimed())
    for _ in range(2):
        file.began(run)
    for _ in range(2):
        file.ended(run, "Succeeded")
    found = journal.read(tmp_path / "journal", PID).executions
    assert [execution.outcome for execution in found] == ["Succeeded", "Succeeded"]


def test_a_worker_that_died_before_it_wrote_has_an_empty_journal(tmp_path):
    assert journal.read(tmp_path / "never", PID) == Journal(PID, [], [])


def test_a_gap_between_lines_is_a_standstill(tmp_path):
    path = tmp_path / "journal"
    path.write_text("".join(f"{json.dumps(['pulse', at])}\n" for at in (1.0, 1.2, 4.0, 4.2)))
    written = journal.read(path, PID)
    assert standstills(written, ProcessFact(PID, 0, 9, "ended cleanly"), longest=1) == ((1.2, 4.0),)
    assert standstills(written, ProcessFact(PID, 0, 9, "killed"), longest=1) == ((1.2, 4.0), (4.2, 9))


def test_a_worker_that_stands_still_before_its_first_handler_has_stood_still(tmp_path):
    path = tmp_path / "journal"
    file = JournalFile(path)
    file.start_pulse()
    [first] = journal.read(path, PID).pulses[:1]
    after = [*journal.read(path, PID).pulses, first + 60]
    [stood, *_] = standstills(Journal(PID, [], after), ProcessFact(PID, first, first + 61, "ended cleanly"), longest=1)
    assert stood[1] == first + 60


def test_errors_that_no_deed_explains_are_complaints(tmp_path):
    log = tmp_path / "log-1"
    log.write_text(
        "12:00:00 ERROR   jobs.worker.handler_places handler of flaky flaky 1 raised\n"
        "12:00:01 WARNING jobs.worker.settler cannot settle 3 results, trying again: gone\n"
        "12:00:02 ERROR   jobs.worker.settler cannot settle quick quick 3 at all, dropping its result\n"
        "12:00:03 ERROR   jobs.worker.heartbeat hang hang 1 has run for 1 s: stopping it\n"
        "Exception in thread settler:\n"
    )
    found = complaints([log])
    assert len(found) == 2
    assert "at all" in found[0]
    assert "Exception in thread" in found[1]
