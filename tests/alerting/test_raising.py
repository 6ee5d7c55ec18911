"""The causes and ends of alerts, and who hears of them: each once."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from alerting import announcements
from alerting.models import Alert, AlertKind, AlertMessage, AlertRoute
from alerting.raising import FoundAlert
from jobs.clock import database_clock
from jobs.models import Breaker
from jobs.states import Status
from operations import conditions
from operations.finding import Severity
from sources.models import Assignment, SelfBackup, Source
from sources.protection import overdue_assignments
from tests.alerting.making import AT, MINUTE, failing, look, make_route
from tests.factories import make_record, make_worker
from tests.sources.factories import backed_up, make_assignment, make_policy

pytestmark = pytest.mark.django_db

LATER = AT + 6 * MINUTE


def titles(now: datetime) -> list[str]:
    return [message.title for message in look(now)]


def test_a_source_that_fails_twice_is_one_alert_and_one_all_clear():
    make_route()
    assignment = failing(failures=1)
    assert titles(AT) == []
    Assignment.objects.update(failures=2)
    make_record(
        Status.WAITING, kind="backup", subject=f"assignment:{assignment.pk}", last_error="no route to host\nand more"
    )
    [alert] = look(AT)
    assert (alert.title, alert.type) == ("A source is failing", "failure")
    assert alert.body.endswith("2 failures in a row: no route to host")
    Assignment.objects.update(failures=3)
    assert titles(LATER) == []
    Assignment.objects.update(failures=0, first_failure_at=None)
    [message] = look(LATER)
    assert (message.title, message.type) == ("OK again: a source is failing", "success")
    assert assignment.source.name in message.body
    assert titles(LATER + 6 * MINUTE) == []


def test_what_comes_again_while_a_route_that_is_off_still_knows_it_is_told_as_it_is_now():
    make_route()
    off = make_route()
    failing()
    assert len(look(AT)) == 2
    AlertRoute.objects.filter(pk=off.pk).update(enabled=False)
    Assignment.objects.update(failures=0, first_failure_at=None)
    assert titles(LATER) == ["OK again: a source is failing"]
    Assignment.objects.update(failures=5, first_failure_at=LATER)
    [message] = look(LATER + 6 * MINUTE)
    assert "5 failures in a row" in message.body
    assert Alert.objects.get().since == LATER


WEEKDAYS = [{"days": "mon-fri", "start": "12:00", "end": "18:00"}]


@pytest.mark.parametrize(
    ("window", "excluded", "days"), [([], [], 3), (WEEKDAYS, [], 5), (WEEKDAYS, ["2026-03-02..2026-03-04"], 8)]
)
def test_a_source_is_overdue_after_two_missed_chances(window: list[Any], excluded: list[str], days: int):
    """The last backup is of Thursday at ten: Friday is missed, and then Saturday, or Monday, or Thursday."""
    make_route()
    policy = make_policy(window=window, excluded_dates=excluded)
    thursday = AT - timedelta(days=4, hours=2)
    overdue = backed_up(policy, thursday)
    for now in (thursday + timedelta(days=day, hours=hour) for day in range(1, days + 1) for hour in (-1, 0)):
        overdue_assignments.look(now)
        if messages := look(now):
            break
    assert now == thursday + timedelta(days=days, hours=-1)
    assert messages[0].title == "A source is overdue"
    assert overdue.source.name in messages[0].body


def test_a_clock_that_was_ahead_silences_no_route():
    make_route()
    ahead = AT + timedelta(days=300)
    Breaker.objects.create(key="repository:1", title="nas", opened_at=AT, probe_at=AT, failures=3)
    failing()
    assert titles(ahead) == ["A source is failing"]
    failing()
    assert titles(AT) == ["A repository cannot be used, and 1 more"]
    Breaker.objects.update(opened_at=None)
    assert titles(ahead) == []
    assert [titles(AT + minute * MINUTE) for minute in range(6, 11)] == [[]] * 5
    assert titles(AT + 11 * MINUTE) == ["OK again: a repository cannot be used"]


def test_many_sources_of_three_policies_are_one_message(monkeypatch):
    make_route()
    policies = [make_policy() for _ in range(3)]
    for number in range(30):
        failing(policies[number % 3])
    monkeypatch.setattr(announcements, "AT_ONCE", 31)
    [message] = look(AT)
    assert message.title == f"30 sources are failing (under {', '.join(sorted(map(str, policies)))})"
    assert message.body.count("\n") == 6
    assert message.body.endswith("… and 25 more")


def test_what_comes_after_the_first_message_comes_five_minutes_later_as_one():
    make_route()
    failing()
    assert len(look(AT)) == 1
    failing()
    assert look(AT + MINUTE) == []
    failing()
    [title] = titles(AT + 5 * MINUTE)
    assert title.startswith("2 sources are failing (under policy ")


@pytest.mark.parametrize("change", ["pause", "retire", "disable", "delete"])
def test_what_a_person_pauses_is_no_good_news(change: str):
    make_route()
    assignment = failing()
    look(AT)
    if change == "pause":
        Source.objects.update(paused_at=AT)
    elif change == "retire":
        Source.objects.update(retired_at=AT)
    elif change == "disable":
        type(assignment.policy.schedule).objects.update(enabled=False)
    else:
        assignment.delete()
    assert look(LATER) == []
    assert Alert.objects.get().ended_at == LATER


def test_quiet_hours_hold_messages_and_drop_what_is_over_by_their_end():
    make_route(quiet=[{"days": "mon-sun", "start": "11:00", "end": "14:00"}], zone="UTC")
    kept, healed = failing(), failing()
    assert look(AT) == []
    Assignment.objects.filter(pk=healed.pk).update(failures=0, first_failure_at=None)
    assert look(AT + MINUTE) == []
    [message] = look(AT + timedelta(hours=2))
    assert kept.source.name in message.body
    assert healed.source.name not in message.body


def test_a_route_gets_its_kinds_and_policies_and_what_is_of_no_policy():
    ours, theirs = make_policy(), make_policy()
    route = make_route(name="ours")
    route.policies.add(ours)
    make_route(name="drills", kinds=["drill"])
    make_route(name="off", enabled=False)
    mine, other = failing(ours), failing(theirs)
    [message] = look(AT)
    assert (message.route, mine.source.name in message.body, other.source.name in message.body) == (route, True, False)
    [message] = look(LATER, FoundAlert(AlertKind.HOLD, "hold", "held by anna", "disk is replaced"))
    assert (message.route, message.title) == (route, "Everything is held")


def test_a_breaker_that_comes_and_goes_is_one_alert():
    make_route()
    Breaker.objects.create(key="repository:1", title="repository nas", opened_at=AT, probe_at=AT, failures=3)
    assert titles(AT) == []
    assert titles(AT + MINUTE) == ["A repository cannot be used"]
    for minute in range(2, 10):
        Breaker.objects.update(opened_at=None if minute % 2 else AT)
        assert titles(AT + minute * MINUTE) == []
    Breaker.objects.update(opened_at=None)
    assert [titles(AT + minute * MINUTE) for minute in range(10, 14)] == [[]] * 4
    assert titles(AT + 14 * MINUTE) == ["OK again: a repository cannot be used"]
    assert "Repository nas" in AlertMessage.objects.first().body


@pytest.mark.parametrize("days", [0, 4])
def test_a_backup_of_the_scheduler_by_a_clock_that_was_ahead_hides_none_that_is_missed(
    settings: Any, days: int
) -> None:
    """Also if the clock was ahead when the first one ended, and right when it began."""
    settings.SELF_BACKUP_TO = ""
    make_route()
    now, ahead = database_clock(), database_clock() + timedelta(days=400)
    began = now.date() - timedelta(days=4)
    SelfBackup.objects.create(day=began if days else ahead.date(), ended_at=ahead, file="x", size=1)
    SelfBackup.objects.create(day=began + timedelta(days=days))
    assert titles(now) == ["The scheduler itself was not backed up"]
    [finding] = [each for each in conditions.examine() if each.name == "self_backup"]
    assert finding.severity == Severity.WARNING, finding


def test_of_two_workers_of_a_host_the_death_of_the_older_one_is_an_alert_until_another_begins():
    make_route()
    make_worker("older", started_at=AT - 60 * MINUTE, heartbeat_at=AT - 10 * MINUTE)
    make_worker("younger", started_at=AT - 59 * MINUTE, heartbeat_at=AT + 60 * MINUTE)
    assert [*titles(AT), *titles(AT + MINUTE)] == ["A worker is silent"]
    make_worker("another", started_at=AT + MINUTE, heartbeat_at=AT + 60 * MINUTE)
    assert [*titles(AT + 2 * MINUTE), *titles(LATER + 2 * MINUTE)] == ["OK again: a worker is silent"]


# Small worlds, which need no shrinking: each one asks the database some hundred times.
@settings(phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(st.lists(st.tuples(st.frozensets(st.sampled_from("abc")), st.integers(1, 7)), min_size=1, max_size=7))
def test_each_route_hears_of_each_once_and_of_its_end_once_whatever_comes(rounds):
    for model in (AlertMessage, Alert, AlertRoute):
        model.objects.all().delete()
    make_route()
    now, known = AT, set()
    for bad, minutes in [*rounds, (rounds[-1][0], 6), (rounds[-1][0], 6)]:
        now += minutes * MINUTE
        for message in look(now, *(FoundAlert(AlertKind.CHECK, name, f"<{name}>", "") for name in sorted(bad))):
            over = False
            for line in message.body.splitlines():
                over = line.startswith("OK again") if not line.startswith(" ") else over
                if line.startswith("  <"):
                    name = line.strip(" <>")
                    assert (name in known) == over
                    known ^= {name}
    assert known == {alert.subject for alert in Alert.objects.filter(ended_at=None)} == set(rounds[-1][0])


def test_a_repository_is_nearly_full_until_an_eighth_is_free_again():
    make_route()
    repository = make_policy().repository
    found = []
    for minute, free in enumerate((11, 9, 9, 12, 12, 13, 13, 13, 13, 13, 13)):
        type(repository).objects.update(room_free=free, room_total=100)
        found += titles(AT + minute * MINUTE)
    assert found == ["A repository is nearly full", "OK again: a repository is nearly full"]


@pytest.mark.parametrize("room_is_there", [True, False])
def test_a_repository_is_too_full_for_a_backup_that_filled_it_until_that_succeeds_or_there_is_room(
    room_is_there: bool,
) -> None:
    make_route()
    policy = make_policy()
    asleep, row = make_assignment(policy), make_assignment(policy)
    for each in (asleep, row):
        type(each).objects.filter(pk=each.pk).update(room_lacked=50)
    type(asleep.source).objects.filter(pk=asleep.source_id).update(paused_at=AT)
    found = []
    for minute in range(12):
        free = 60 if minute > 5 and room_is_there else 40
        type(policy.repository).objects.update(room_free=free, room_total=100)
        if minute > 5 and not room_is_there:
            type(row).objects.filter(pk=row.pk).update(room_lacked=None)
        found += titles(AT + minute * MINUTE)
    assert found == ["A repository is nearly full", "OK again: a repository is nearly full"]
    assert Alert.objects.get().text == f"40.0 % of it is free, and a backup needs more: {row.source.name}"


@pytest.mark.parametrize("key", ["repository:1", "gone"])
def test_the_page_of_an_alert_leads_to_what_is_to_be_mended(admin_client: Any, key: str) -> None:
    breaker = Breaker.objects.create(key="repository:1", title="<disk>", failures=5, opened_at=AT, probe_at=AT)
    assignment = failing()
    policy = assignment.policy
    window = FoundAlert(AlertKind.SCHEDULE, f"window:{policy.pk}", str(policy), "its window never opens")
    look(AT, FoundAlert(AlertKind.BREAKER, f"breaker:{key}", "<disk>", "away"), window)
    pages = {
        alert.kind: admin_client.get(f"/admin/alerting/alert/{alert.pk}/change/").content.decode()
        for alert in Alert.objects.all()
    }
    assert f'href="/admin/sources/source/{assignment.source_id}/change/"' in pages[AlertKind.FAILING]
    assert f'href="/admin/sources/policy/{policy.pk}/change/"' in pages[AlertKind.SCHEDULE]
    assert ">&lt;disk&gt;</a>" in pages[AlertKind.BREAKER] or key == "gone"
    is_linked = f'href="/admin/jobs/breaker/{breaker.pk}/change/"' in pages[AlertKind.BREAKER]
    assert is_linked == (key != "gone")
