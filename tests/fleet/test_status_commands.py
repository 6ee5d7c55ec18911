"""Questions and actions on sources at a terminal."""

import json
import re
import subprocess
import sys
from datetime import timedelta

import pytest
from django.conf import settings
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from alerting import raising
from alerting.models import AlertRoute
from jobs import conf
from jobs.models import BacklogRecord, Decision
from jobs.states import Status
from operations.conditions import Severity, examine, names
from sources.models import CheckRound, Source
from tests.commands import command
from tests.factories import make_record, make_schedule, make_worker
from tests.operations.conditions.examining import finding
from tests.sources.factories import make_assignment, make_policy, make_source

NOW = timezone.now()
PROTECTED = {"last_backup_at": NOW, "next_backup_at": NOW + timedelta(days=1)}

status, _ = command("status")
sources, sources_refused = command("sources")


def ends_with_1(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The output of `status` where something needs an operator."""
    from django.core.management import call_command

    with pytest.raises(SystemExit, match="1"):
        call_command("status", *arguments)
    return capsys.readouterr().out


EMPTY_LISTS = (
    "sources check", "restores drill", "sources copy", "sources held-back", "database backups", "repositories",
    "secrets", "policies",
)  # fmt: skip


@pytest.mark.django_db
class TestCommands:
    @pytest.fixture(autouse=True)
    def heard_of(self, db: None) -> None:
        """People hear of what goes wrong: else `status` names that, too."""
        AlertRoute.objects.create(name="ops", url="env:OPS")

    def test_status_names_who_needs_a_person_and_why(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert "there are no sources. Add a repository" in ends_with_1(capsys)
        found = finding("protection")
        assert (found.severity, found.what) == (Severity.WARNING, "Nothing is protected yet: there are no sources")
        assert found.do.startswith("Add a repository")
        make_assignment(source=make_source(name="fine"), **PROTECTED)
        assert ends_with_1(capsys).startswith("No worker is alive")
        make_worker(queues=dict.fromkeys(conf.queue_rules(), 1))
        assert status() == "1 of 1 protected.\n"
        make_source(name="alone")
        make_assignment(source=make_source(name="bad"), failures=2, **PROTECTED)
        lines = ends_with_1(capsys).splitlines()
        assert lines[0] == "1 of 3 protected · 2 need you."
        assert [line.split()[:2] for line in lines[-2:]] == [["bad", "failing"], ["alone", "unprotected"]]
        assert "it is in no policy" in lines[-1]
        found = json.loads(ends_with_1(capsys, "--json"))
        assert (found["is_well"], found["in_need"], found["by_status"]["failing"]) == (False, 2, 1)
        Source.objects.exclude(name="fine").delete()
        make_record(Status.FAILED)
        assert "1 dead letter" in ends_with_1(capsys)

    def test_the_status_of_all_sources_is_found_once_a_look(self, capsys: pytest.CaptureFixture[str]) -> None:
        for failures in (0, 2):
            make_assignment(failures=failures, **PROTECTED)
        looks = {
            "status": lambda: ends_with_1(capsys),
            "sources": sources,
            "backlog": command("backlog")[0],
            "doctor": lambda: examine(skip=set(names()) - {"protection", "workers", "paused_queues"}),
        }
        for name, look in looks.items():
            with CaptureQueriesContext(connection) as asked:
                look()
            of_sources = [each["sql"] for each in asked if not each["sql"].startswith('SELECT "sources_assignment"')]
            assert sum(sql.count(") AS found") for sql in of_sources) == 1, name
            [whole] = [sql for sql in of_sources if ") AS found" in sql]
            shows_what_runs = name in ("sources", "doctor")
            assert ("jobs_backlogrecord" in whole) == shows_what_runs, name

    def test_the_doctor_looks_for_all_findings_of_assignments_at_once(self) -> None:
        make_assignment(drill_error="a file is gone", held_back_since=timezone.now(), **PROTECTED)
        with CaptureQueriesContext(connection) as asked:
            found = examine(skip=set(names()) - {"held_back", "drills", "copies", "damage"})
        assert {each.name: len(each.found) for each in found} == {"held_back": 1, "drills": 1, "copies": 0, "damage": 0}
        assert sum("AS v(kind" in each["sql"] for each in asked) == 1

    def test_all_is_not_well_where_backups_are_damaged_or_everything_is_paused(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        make_worker(queues=dict.fromkeys(conf.queue_rules(), 1))
        assignment = make_assignment(source=make_source(name="fine"), **PROTECTED)
        damage = {"point": "20260301T090000Z", "path": "a", "place": "current", "why": "it is missing"}
        CheckRound.objects.create(assignment=assignment, planned_at=NOW, damage=[damage])
        raising.look(NOW)
        lines = ends_with_1(capsys).splitlines()
        assert lines[0] == "0 of 1 protected · 1 needs you."
        assert lines[-1].split()[:5] == ["fine", "doubtful", "a", "check", "found"]
        CheckRound.objects.all().delete()
        raising.look(NOW)
        assert status() == "1 of 1 protected.\n"
        Source.objects.update(paused_at=NOW)
        assert ends_with_1(capsys) == "0 of 1 protected · 1 paused.\n"
        found = finding("protection")
        assert (found.severity, found.what) == (Severity.WARNING, "0 of 1 protected · 1 paused: nothing is backed up")
        Source.objects.update(paused_at=None)
        assignment.delete()
        found = finding("protection")
        assert (found.severity, found.what) == (
            Severity.WARNING,
            "0 of 1 protected · 1 needs you: 1 unprotected",
        )

    @pytest.mark.parametrize("name", EMPTY_LISTS)
    def test_where_there_is_nothing_to_list_a_sentence_says_so(self, name: str) -> None:
        assert re.fullmatch(r"(There are no|Nothing is|The scheduler itself has not) .+\.\n", command(name)[0]())

    def test_a_policy_of_which_nothing_was_backed_up_has_no_points(self) -> None:
        assert command("policies prune")[0](make_assignment().policy, "--dry-run").startswith("There are no points")

    def test_a_policy_without_a_source_protects_nothing_and_neither_do_sources_that_are_retired(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        backlog, _ = command("backlog")
        make_worker(queues=dict.fromkeys(conf.queue_rules(), 1))
        make_policy()
        assert "there are no sources. Add a repository" in ends_with_1(capsys)
        found = finding("protection")
        assert (found.severity, found.what) == (Severity.WARNING, "Nothing is protected yet: there are no sources")
        assert found.do.startswith("Add a repository")
        assert "! Nothing is protected yet: there are no sources." in backlog()
        assert "there are no sources yet. Add" in sources_refused(code=1)
        make_source(retired_at=NOW)
        assert ends_with_1(capsys).startswith("Nothing is protected: every source is retired. Add")
        assert finding("protection").severity is Severity.WARNING
        make_schedule()
        assert "Nothing is protected" not in backlog()  # an installation may deliver events alone
        found = finding("protection")
        assert (found.severity, found.what) == (
            Severity.OK,
            "there is nothing to back up: schedules deliver events alone",
        )

    def test_sources_lists_the_worst_first_and_by_status_and_policy(self) -> None:
        laptops = make_policy()
        make_assignment(laptops, make_source(name="fine"), **PROTECTED)
        make_assignment(source=make_source(name="bad"), failures=2, **PROTECTED)
        make_source(name="gone", retired_at=NOW)
        assert [each["name"] for each in json.loads(sources("--json"))] == ["bad", "fine"]
        assert [each["name"] for each in json.loads(sources("--json", "--status", "failing"))] == ["bad"]
        assert [each["name"] for each in json.loads(sources("--json", "--policy", str(laptops)))] == ["fine"]
        assert "there are more" in sources("--limit", "1")
        assert sources_refused("--status", "overdue", code=1) == "no source matches"
        assert f"did you mean {str(laptops)!r}" in sources_refused("--policy", f"{laptops}s")
        shown = json.loads(sources("show", "bad", "--json"))
        assert (shown["status"], shown["assignments"][0]["failures"]) == ("failing", 2)
        assert "2 failures in a row" in sources("show", "bad")

    def test_they_are_paused_resumed_and_backed_up_by_name(self) -> None:
        pause, pause_refused = command("sources pause")
        resume, resume_refused = command("sources resume")
        back_up, back_up_refused = command("sources backup-now")
        laptop = make_assignment(source=make_source(name="laptop")).source
        assert "no more backups until it is resumed" in pause("laptop", "--reason", "sold")
        assert Decision.objects.latest("pk").text.endswith("at the command line paused it: sold")
        assert "(sold): `manage.py sources resume laptop`" in sources("show", "laptop")
        assert pause_refused("laptop", code=1) == "1 of 1 were left as they are"
        back_up_refused("laptop", code=1)
        assert "it is backed up again" in resume("laptop")
        assert Decision.objects.filter(text__endswith="at the command line resumed it").exists()
        assert (Source.objects.get().paused_at, Source.objects.get().paused_why) == (None, "")
        resume_refused("laptop", code=1)
        assert back_up("laptop") == "laptop: 1 backup put at the head of the backlog\n"
        assert BacklogRecord.objects.get().subject == f"assignment:{laptop.assignments.get().pk}"
        assert "did you mean 'laptop'" in back_up_refused("labtop")


@pytest.mark.parametrize("name", ["sources", "doctor"])
def test_a_command_starts_without_what_it_does_not_need(name: str) -> None:
    check = (
        "import sys; from backupsched import command_line; sys.argv = ['manage.py', *sys.argv[1:]]\n"
        "try:\n    command_line.main()\nfinally:\n"
        "    from operations import conditions; conditions.names() if sys.argv[1] == 'doctor' else None\n"
        "    heavy = 'rich ninja pydantic aiohttp yarl boto3 matplotlib apprise cryptography unfold.sites'.split()\n"
        "    print('LOADED', *(each for each in heavy if each in sys.modules))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", check, name, "--help"],
        cwd=settings.BASE_DIR,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert f"usage: manage.py {name}" in ran.stdout
    assert ran.stdout.splitlines()[-1] == "LOADED"


@pytest.mark.django_db
def test_all_is_well_only_where_sources_are_there_and_none_needs_a_person_and_nothing_gave_up() -> None:
    make_worker(queues=dict.fromkeys(conf.queue_rules(), 1), heartbeat_at=timezone.now())
    backlog, _ = command("backlog")
    assert "Nothing is protected yet" in backlog()
    protected = make_assignment(**PROTECTED)
    assert "All is well." in backlog()
    make_assignment(last_backup_at=NOW, next_backup_at=NOW, failures=1)
    make_source()
    said = "1 of 3 protected · 2 need you: 1 failing, 1 unprotected"
    assert f"! {said}. `manage.py status`" in backlog()
    assert finding("protection").what == said
    Source.objects.exclude(pk=protected.source_id).delete()
    make_record(Status.FAILED)
    assert "! 1 record has given up" in backlog()
    assert finding("dead_letters").what == "1 record has given up"
