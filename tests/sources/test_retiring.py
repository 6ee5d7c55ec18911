"""A retired source leaves every plan and check; its backups thin out as if it had been backed up on, and then end."""

from datetime import datetime, timedelta
from pathlib import Path

import pytest
from django.test import Client

from backups.upkeep import checks, retention
from jobs.models import BacklogRecord
from jobs.states import Status
from sources import planning
from sources.domain.retention import Keep
from sources.models import Assignment, Backup, Source
from sources.planning import retirement
from sources.protection import overdue_assignments
from tests.api.asking import Program
from tests.backups import points_to_remove
from tests.backups.points_to_remove import at_work, run
from tests.commands import command
from tests.factories import status_of
from tests.operations.questions import asked, choose
from tests.sources.factories import MONDAY, backed_up, handed_on, make_policy, make_source, record_of
from tests.storage.played_runs import BEGAN, Played

assignment, played = points_to_remove.assignment, points_to_remove.played

pytestmark = pytest.mark.django_db(transaction=True)

NOON = MONDAY + timedelta(hours=12)
DAY = timedelta(days=1)


def test_it_is_neither_emitted_nor_checked_nor_overdue_and_what_runs_is_stopped_until_it_is_in_use_again() -> None:
    policy = make_policy(check_within=86_400)
    late = [backed_up(policy, MONDAY - 3 * DAY) for _ in range(2)]
    planning.emit_due(NOON)
    handed_on(late[0], NOON)
    overdue_assignments.look(NOON)
    records = [record_of(each) for each in late]
    assert retirement.retire([each.source for each in late], now=NOON) == 2
    assert [status_of(each) for each in records] == [Status.RUNNING, Status.CANCELLED]
    assert BacklogRecord.objects.get(cancel_requested_at__isnull=False) == records[0]
    assert not Assignment.objects.filter(overdue_since__isnull=False).exists()
    assert [planning.emit_due(NOON), overdue_assignments.look(NOON), checks.plan(NOON), planning.back_up_now(late)] == [
        0
    ] * 4
    assert [retirement.unretire([late[1].source], now=NOON), retirement.unretire([late[1].source])] == [1, 0]
    assert record_of(late[1]).status == Status.READY


@pytest.mark.parametrize(
    ("rules", "days", "left"),
    [
        ({}, 9999, {}),
        ({"last": 7, "daily": 14}, 3, {"last": 4, "daily": 11}),
        ({"last": 7, "monthly": 12}, 40, {"monthly": 11}),
        ({"last": 7}, 7, None),
        ({"within": 864_000.0}, 4, {"within": 518_400.0}),
        ({"hourly": 24, "yearly": 1}, 400, None),
        ({"weekly": 2}, 6, {"weekly": 2}),
    ],
)
def test_each_rule_goes_down_as_if_the_backups_had_gone_on(rules: dict, days: int, left: dict | None) -> None:
    def nine_o_clock(instant: datetime) -> datetime:
        day = instant.replace(hour=9, minute=0, second=0, microsecond=0)
        return day if day > instant else day + DAY

    found = Keep(**rules).gone_on(NOON, NOON + days * DAY, "UTC", nine_o_clock)
    assert found == (None if left is None else Keep(**left))


@pytest.mark.usefixtures("orders_run_here", "made_by_hand")
def test_its_points_thin_out_day_by_day_and_at_last_the_folder_goes(assignment: Assignment, played: Played) -> None:
    Source.objects.update(retired_at=BEGAN + 5 * DAY, paused_at=BEGAN)

    def kept(days: int) -> int:
        minute = timedelta(minutes=assignment.pk % retention.MINUTES)
        now = (BEGAN + days * DAY).replace(hour=0, minute=0, second=0, microsecond=0) + minute
        if retention.plan_retired(now):
            run(at_work(now), now)
        return Backup.objects.count()

    assert [kept(6), kept(20)] == [1, 1]
    assert len(played.points()) == 1
    Assignment.objects.update(last_backup_at=BEGAN + 5 * DAY, next_backup_at=BEGAN + 400 * DAY, proved_at=BEGAN)
    assert [kept(40), kept(41)] == [0, 0]
    assert [*Assignment.objects.values_list("last_backup_at", "next_backup_at", "proved_at")] == [(None, None, None)]
    assert not Path(played.root, assignment.directory.partition("/")[0]).exists()
    assert Source.objects.filter(retired_at__isnull=False).exists()


def test_it_is_retired_and_taken_back_by_list_page_command_api_and_fleet_file(admin_client: Client) -> None:
    source = make_source(name="old laptop")
    retire, refused = command("sources retire")

    def is_retired() -> bool:
        source.refresh_from_db()
        return source.retired

    question, page = asked(admin_client, "/admin/sources/source/", choose("retire", source))
    assert "as long as its policies would have kept them" in question
    assert "Retire: 1 source." in page
    assert is_retired()
    admin_client.post(f"/admin/sources/source/{source.pk}/unretire/", {"confirmed": "yes"})
    assert not is_retired()
    assert "retired" in retire("old laptop")
    assert is_retired()
    assert "in use again" in retire("old laptop", "--undo")
    assert "did you mean" in refused("old laptob")
    program = Program()
    assert program.patch(f"sources/{source.pk}", {"retired": True}).json()["status"] == "retired"
    assert program.post(f"sources/{source.pk}/back-up-now").status_code == 409
    assert program.patch(f"sources/{source.pk}", {"retired": False}).json()["retired"] is False
    assert not is_retired()
