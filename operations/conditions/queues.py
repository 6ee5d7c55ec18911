"""Conditions of the queue that are read from the summary of the backlog, which is made once for all conditions."""

from collections.abc import Iterable
from functools import partial

from operations.backlog.attention import findings
from operations.finding import Condition, Finding, Look, add

FINE = {
    "workers": "a worker is alive",
    "silent_workers": "no worker fell silent",
    "dead_letters": "no record has given up",
    "unserved_queues": "every queue that holds records has a living worker",
    "unpromoted": "what has waited long enough is made ready",
    "on_hold": "nothing is on hold",
    "paused_queues": "no queue is paused",
    "open_breakers": "no breaker is open",
    "unknown_kinds": "every unfinished record is of a kind known here",
}


def _of_kind(kind: str, look: Look) -> Iterable[Finding]:
    return (each for each in findings(look.summary) if each.kind == kind)


for name, fine in FINE.items():
    add(Condition(name, partial(_of_kind, name), fine))
