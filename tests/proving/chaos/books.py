"""Facts of a small storm whose books balance, to be falsified one at a time."""

from dataclasses import replace
from typing import Any

from jobs.states import AttemptOutcome, Status
from proving.chaos.facts import AttemptFact, Deeds, Execution, ProcessFact, RecordFact, Samples, StormFacts

LEASE_SECONDS = 4.0
CAPPED, UNCAPPED = 1, 2
"""Throttles with the caps 1 and 2."""

LIVED, KILLED = 101, 102
"""Process ids; their worker ids are 1 and 2."""
WORKER = {LIVED: 1, KILLED: 2}


def record(id_: int, kind: str = "quick", **fields: Any) -> RecordFact:
    """One that succeeded in its first attempt."""
    facts: dict[str, Any] = {
        "queue": "work",
        "subject": f"{kind} {id_}",
        "status": Status.SUCCEEDED,
        "attempt": 1,
        "failures": 0,
        "max_failures": None,
        "cancelled_at": None,
        "leased": False,
    }
    return RecordFact(id_, kind, **(facts | fields))


def ran(
    id_: int,
    began: float,
    *,
    number: int = 1,
    pid: int = LIVED,
    outcome: AttemptOutcome = AttemptOutcome.SUCCEEDED,
    returned: str | None = "Succeeded",
    seconds: float = 1.0,
    settled: float | None = None,
    **fields: Any,
) -> tuple[AttemptFact, Execution]:
    """An attempt and its execution, settled at once or at `settled`. `returned` None: it was cut off."""
    ended = None if returned is None else began + seconds
    settled = settled if settled is not None else began + seconds
    attempt = AttemptFact(id_, number, "work", WORKER[pid], began, settled, outcome)
    facts: dict[str, Any] = {"kind": "quick", "queue": "work", "exclusive_key": None, "throttles": ()}
    execution = Execution(
        id_, number, WORKER[pid], pid, **(facts | fields), began=began, ended=ended, outcome=returned or ""
    )
    return attempt, execution


def books(records: list[RecordFact], runs: list[tuple[AttemptFact, Execution]], **fields: Any) -> StormFacts:
    """The facts of a storm with these records and runs, in which one worker lived and one was killed at 50."""
    histories: dict[int, list[AttemptFact]] = {}
    for attempt, _ in runs:
        histories.setdefault(attempt.record_id, []).append(attempt)
    facts = StormFacts(
        lease_seconds=LEASE_SECONDS,
        caps={CAPPED: 1, UNCAPPED: 2},
        feeding=frozenset({"ask"}),
        records={record.id: record for record in records},
        attempts=histories,
        executions=[execution for _, execution in runs],
        processes={
            LIVED: ProcessFact(LIVED, 0, 1000, "ended cleanly"),
            KILLED: ProcessFact(KILLED, 0, 50, "killed"),
        },
        worker_pids={worker: pid for pid, worker in WORKER.items()},
        bookings=[],
        deeds=Deeds(subjects={record.subject: record.kind for record in records}),
        samples=Samples(100, {}, frozenset()),
        drained=True,
    )
    return replace(facts, **fields)
