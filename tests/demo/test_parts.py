"""The parts of the demo that judge it, or end it, each for itself."""

import subprocess
import sys
from datetime import timedelta
from types import SimpleNamespace

import psutil
import pytest
from django.utils import timezone

from backups.restores.requests import Restores
from dashboard.models import DayTotal
from demo import comings, history
from demo.hosts import AWKWARD_NAMES, generate, make_other_hosts
from demo.session import Options, Session
from demo.summary import Summary, differences
from jobs.models import Attempt
from jobs.states import AttemptOutcome
from sources.models import Backup, Repository, Restore
from sources.planning import subject_of
from tests.documents import ROOT
from tests.sources.factories import backed_up, make_assignment, make_policy, make_source
from tests.waiting import PATIENCE, eventually


def test_one_changed_byte_a_missing_and_a_surplus_file_are_found(tmp_path):
    for name in ("original", "copy"):
        generate(tmp_path / name, seed="a", total_bytes=50_000)
    assert differences(tmp_path / "original", tmp_path / "copy") == []
    assert set(AWKWARD_NAMES) <= {path.name for path in (tmp_path / "copy").iterdir()}
    changed = tmp_path / "copy" / "notes with spaces.txt"
    content = bytearray(changed.read_bytes() or b"x")
    content[-1] ^= 1
    changed.write_bytes(content)
    (tmp_path / "copy" / "-rf").unlink()
    (tmp_path / "copy" / "surplus").touch()
    assert differences(tmp_path / "original", tmp_path / "copy") == [
        "missing in the copy: -rf",
        "only in the copy: surplus",
        "differs: notes with spaces.txt",
    ]


@pytest.mark.parametrize(
    ("reachable", "identical", "size", "complete"),
    [(True, True, 10, True), (False, None, None, True), (True, False, 10, False), (True, None, None, False)],
)
def test_a_run_is_complete_when_every_reachable_source_has_an_identical_copy(reachable, identical, size, complete):
    source = {"reachable": reachable, "bytes": size, "identical": identical}
    assert Summary([source], [], protected=1, reachable=1, seconds=1.0).complete is complete


@pytest.mark.django_db
def test_the_folder_is_a_place_that_a_restore_may_write_to(tmp_path, settings, admin_user):
    settings.VAR_DIR = tmp_path / "demo"
    machines = Session(Options(5, 1, 1, 0, 1.0, runs_on=False), print).machines
    [folder] = [host for host in make_other_hosts(machines, 1) if host.kind == "local"]
    Repository.objects.create(name="demo", location=str(settings.VAR_DIR / "repository"))
    back = Restore(assignment=make_assignment(source=make_source(kind="local", path=folder.path)), to="source")
    assert Restores(admin_user).place_of(back) == folder.path


@pytest.mark.django_db
def test_an_enrolment_is_not_waited_for_and_one_that_failed_is_tried_again_by_a_later_look(tmp_path):
    host = SimpleNamespace(name=make_source().name, home=tmp_path, agent=None, enrolment=None)
    assert comings.start_agent(host, "http://127.0.0.1:9") is False
    first = host.enrolment
    assert first.poll() is None
    assert first.wait(PATIENCE) != 0
    assert comings.start_agent(host, "http://127.0.0.1:9") is False
    assert host.enrolment.wait(PATIENCE) != 0
    assert (host.enrolment is first, host.agent) == (False, None)


STARTS_ONE_MORE_WHEN_IT_IS_ENDED = """
import pathlib, signal, subprocess, sys, time
def end(*_):
    late = subprocess.Popen(["sleep", "600"], start_new_session=True)
    pathlib.Path(sys.argv[1], "late").write_text(str(late.pid))
    raise SystemExit
signal.signal(signal.SIGTERM, end)
pathlib.Path(sys.argv[1], "begun").touch()
while True:
    time.sleep(600)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere orphans are not handed to the keeper")
def test_what_a_program_starts_while_it_is_being_ended_is_ended_too(tmp_path):
    program = [sys.executable, "-c", STARTS_ONE_MORE_WHEN_IT_IS_ENDED, str(tmp_path)]
    keeper = subprocess.Popen([sys.executable, "-m", "demo.keeper", *program], cwd=ROOT, stdin=subprocess.PIPE)
    eventually((tmp_path / "begun").exists)
    keeper.communicate(timeout=PATIENCE)  # closes its standard input, as the end of the demo does
    late = int((tmp_path / "late").read_text())
    assert not psutil.pid_exists(late)


@pytest.mark.django_db
def test_the_made_up_days_resemble_the_first_backup_and_leave_no_rows_of_points_that_do_not_exist():
    now = timezone.now()
    assignment = backed_up(make_policy(), now, inserted_at=now)
    real = Backup.objects.create(
        assignment=assignment, repository=assignment.policy.repository, attempt=1, engine="rclone", size=1000, files=9,
        started_at=now, ended_at=now + timedelta(seconds=60), snapshot="20261128T061606Z/rclone",
    )  # fmt: skip
    made_up = history.History(real.started_at)
    counted = DayTotal.objects.create(date=(now - timedelta(days=3)).date())  # a worker has counted it before
    for _ in range(2):  # once for each source
        made_up.look()
    attempts = Attempt.objects.filter(record__subject=subject_of(assignment.pk))
    succeeded = attempts.filter(outcome=AttemptOutcome.SUCCEEDED).count()
    assert 45 < succeeded == Backup.objects.count() - 1 <= history.DAYS
    assert attempts.filter(started_at__gte=now).count() == 0
    assert sum(day.succeeded for day in DayTotal.objects.all()) > 20
    counted = DayTotal.objects.get(date=counted.date)
    assert counted.succeeded + counted.failed + counted.missed == 1
    assert all(300 < backup.size < 1200 for backup in Backup.objects.all())
    made_up.forget_backups()
    assert Backup.objects.get() == real
    assert attempts.filter(outcome=AttemptOutcome.SUCCEEDED).count() == succeeded
