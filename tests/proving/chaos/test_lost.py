"""The data that a failover to a lagging replica may lose, and the rest."""

from dataclasses import replace

from jobs.states import AttemptOutcome
from proving.chaos.audit_tables import audit
from proving.chaos.facts import StormFacts
from proving.chaos.hosts.lost import Lost, without_the_lost
from tests.proving.chaos.books import KILLED, LIVED, books, ran, record

LAGS_FROM = 10.0


def judged(facts: StormFacts, *put_before: str) -> Lost:
    return without_the_lost(facts, LAGS_FROM, frozenset(put_before))


def test_what_was_put_on_the_backlog_since_the_lag_may_be_lost_and_nothing_older():
    facts = books([record(1)], [ran(1, 2)])
    facts.deeds.subjects["quick 2"] = "quick"
    assert list(audit(facts)), "the storm's audit misses it"
    found = judged(facts, "quick 1")
    assert (found.subjects, found.discrepancies) == ({"quick 2"}, [])
    assert list(audit(found.facts)) == []
    assert judged(facts, "quick 1", "quick 2").discrepancies == [
        "'quick 2', which was there before the replica lagged, is lost"
    ]


def test_an_attempt_whose_number_was_given_again_is_lost_and_must_have_begun_since_the_lag():
    attempt, execution = ran(1, 14, pid=LIVED)
    _, forgotten = ran(1, 12, pid=KILLED)
    facts = books([record(1)], [(attempt, execution)], executions=[forgotten, execution])
    found = judged(facts, "quick 1")
    assert (found.executions, found.facts.executions, found.discrepancies) == ([forgotten], [execution], [])
    early = replace(forgotten, began=3.0)
    found = judged(replace(facts, executions=[early, execution]), "quick 1")
    assert found.discrepancies == ["attempt 1 of record 1, which began before the replica lagged, is lost"]


def test_the_same_worker_may_be_given_the_same_number_again_of_the_same_record_or_of_another_one():
    attempt, execution = ran(1, 14)
    _, forgotten = ran(1, 12)
    facts = books([record(1)], [(attempt, execution)], executions=[forgotten, execution])
    assert judged(facts).executions == [forgotten]
    _, of_another = ran(1, 14.5, kind="slow")
    assert judged(replace(facts, executions=[of_another, execution])).executions == [of_another]


def test_a_result_that_is_lost_while_its_claim_is_not_leaves_its_execution_in_the_books():
    attempt, execution = ran(1, 9, outcome=AttemptOutcome.RESCUED, settled=20)
    found = judged(books([record(1)], [(attempt, execution)]), "quick 1")
    assert (found.facts.executions, found.executions) == ([execution], [])
