"""A condition that could not be examined is not over: its alerts stay as they are until it can be."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from alerting import rounds, watching
from alerting.models import Alert, AlertMessage, Watch
from operations.finding import CONDITIONS, Finding, Look, rows, warning
from tests.alerting.making import AT, MINUTE, make_route
from tests.sources.factories import backed_up, make_policy

pytestmark = pytest.mark.django_db


@pytest.fixture
def find(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Gives a condition of alerts another answer. The others find nothing."""
    monkeypatch.setattr(watching, "_clock", watching._Clock())
    monkeypatch.setattr(rounds.sending, "in_background", lambda **options: None)

    def answer(kind: str, found: Callable[[Look], Iterable[Finding]]) -> None:
        monkeypatch.setitem(CONDITIONS, kind, replace(CONDITIONS[kind], find=found, alert_where=None))

    for kind in watching.KINDS:
        answer(kind, lambda look: ())
    return answer


def one(subject: str) -> Callable[[Look], Iterable[Finding]]:
    return lambda look: [replace(warning("it does not work", "mend it"), subject=subject)]


def fails(look: Look) -> Iterable[Finding]:
    return rows("SELECT 1 / 0")  # type: ignore[return-value]


def round_at(now: datetime) -> set[str]:
    """A round; the subjects of the open alerts then."""
    rounds.round_of_the_minute(now, now.timestamp())
    return set(Alert.objects.filter(ended_at=None).values_list("subject", flat=True))


@pytest.mark.parametrize(
    ("condition", "subject"),
    [
        ("on_hold", "hold"),
        ("self_backup", "self_backup"),
        ("space", "repository:1"),
        ("open_breakers", "breaker:host:a"),
        ("open_breakers", "breaker:repository:1"),
        ("schedules", "trigger:1"),
        ("dates", "records"),
    ],
)
def test_an_alert_whose_condition_fails_stays_open_and_nothing_is_said_of_it(
    find: Callable[..., None], condition: str, subject: str
) -> None:
    make_route()
    find(condition, one(subject))
    round_at(AT)
    [known] = round_at(AT + MINUTE)
    assert AlertMessage.objects.count() == 1
    find(condition, fails)
    for minutes in (2, 4, 9, 10):  # longer than what comes and goes has to be calm
        assert round_at(AT + minutes * MINUTE) == {known, "watch"}
    assert not AlertMessage.objects.filter(title__contains="OK again").exists()
    find(condition, one(subject))
    assert known in round_at(AT + 11 * MINUTE)
    find(condition, lambda look: ())
    assert [round_at(AT + minutes * MINUTE) for minutes in (12, 18)][1] == set()
    assert Alert.objects.filter(subject=known).count() == 1
    assert AlertMessage.objects.latest("pk").title.startswith("OK again")


def test_a_condition_that_fails_holds_no_alert_of_another_one_open(find: Callable[..., None]) -> None:
    find("dates", one("records"))
    find("unclosed", one("queue:backups"))  # of the same kind of alerts
    assert round_at(AT) == {"dates:records", "unclosed:queue:backups"}
    find("dates", fails)
    find("unclosed", lambda look: ())
    assert "unclosed:queue:backups" in round_at(AT + 3 * MINUTE)
    assert round_at(AT + 9 * MINUTE) == {"dates:records", "watch"}


def test_all_conditions_are_asked_once_in_one_transaction_and_in_one_more_behind_each_that_fails(monkeypatch):
    monkeypatch.setattr(watching, "_clock", watching._Clock())
    watch = Watch(pk=1, looked_at=AT, resumed_at=AT - 180 * MINUTE)
    backed_up(make_policy(), AT - 180 * MINUTE)
    with CaptureQueriesContext(connection) as asked:
        found = watching.look(watch, AT, 0).alerts
    assert sum("READ ONLY" in each["sql"] for each in asked) == 1
    assert sum("ORDER BY o.id" in each["sql"] for each in asked) == 1  # the schedules, for three conditions
    for kind in ("on_hold", "dates"):
        failing = replace(CONDITIONS[kind], find=lambda look: rows("SELECT 1 / 0"), alert_where=None)
        monkeypatch.setitem(CONDITIONS, kind, failing)
    with CaptureQueriesContext(connection) as again:
        [fails] = [each for each in watching.look(watch, AT, 0).alerts if each not in found]
    assert (fails.name, fails.text.partition(":")[0]) == ("the watch over the scheduler fails", "on_hold, dates")
    assert sum("READ ONLY" in each["sql"] for each in again) == 3
    before, then = (
        Counter(each["sql"] for each in of if "SELECT" in each["sql"] and "AS unclosed" not in each["sql"])
        for of in (asked, again)
    )
    assert then - before == {"SELECT 1 / 0": 2}
