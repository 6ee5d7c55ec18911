"""Sources over the API: created, changed and deleted as in the admin, and what a person may want done about one."""

from datetime import datetime, timedelta

import pytest
from django.utils import timezone
from pytest_django import DjangoCaptureOnCommitCallbacks

from jobs.models import BacklogRecord
from jobs.states import Status
from sources.agents import tokens
from sources.models import Assignment, Source
from sources.planning import emit_due
from tests.api.asking import Program, check_filters, fields_of, made, problem_of
from tests.api.sources.making import add_backup
from tests.sources.factories import MONDAY, handed_on, make_assignment, make_policy, make_source, record_of

pytestmark = pytest.mark.django_db

FOLDER = {"name": "office", "kind": "local", "path": "/srv/files"}


class TestCreating:
    def test_what_its_kind_does_not_need_may_be_left_out(self, program: Program) -> None:
        answer = program.post("sources", FOLDER)
        facts, source = made(answer), Source.objects.get()
        assert (source.name, source.kind, source.path) == ("office", "local", "/srv/files")
        assert (facts["status"], facts["policies"], facts["wake_port"]) == ("unprotected", [], 9)
        assert answer.headers["Location"] == f"/api/sources/{source.pk}"


class TestReading:
    def test_the_list_tells_the_status_over_all_assignments(self, program: Program) -> None:
        now = timezone.now()
        daily = make_policy()
        make_assignment(source=make_source(name="never"))
        protected = {"last_backup_at": now, "next_backup_at": now + timedelta(days=1)}
        make_assignment(daily, make_source(name="protected"), **protected)
        make_assignment(source=Source.objects.get(name="protected"), **protected)
        make_assignment(source=make_source(name="failing"), failures=2, **protected)
        make_source(name="none")
        found = {each["name"]: each["status"] for each in program.get("sources").json()["items"]}
        assert found == {"never": "never", "protected": "protected", "failing": "failing", "none": "unprotected"}
        assert [each["name"] for each in program.get("sources", status="failing").json()["items"]] == ["failing"]
        [item] = program.get("sources", policy=daily.schedule.name).json()["items"]
        assert (item["name"], item["status"], len(item["policies"])) == ("protected", "protected", 2)

    def test_by_pause(self, program: Program) -> None:
        going, paused = make_source(), make_source(paused_at=timezone.now())
        check_filters(program, "sources", ({"paused": "true"}, paused), ({"paused": "false"}, going))


class TestChanging:
    def test_what_is_wrong_with_the_whole_is_told(self, program: Program) -> None:
        source = make_source()
        assert set(fields_of(program.patch(f"sources/{source.pk}", {"kind": "postgresql"}))) >= {"address", "options"}
        source.refresh_from_db()
        assert source.kind == "local"

    def test_what_an_agent_said_meanwhile_is_kept(self, program: Program) -> None:
        source = make_source(hostname="box", addresses=["192.0.2.5"], on_battery=True)
        program.patch(f"sources/{source.pk}", FOLDER)
        source.refresh_from_db()
        assert (source.hostname, source.addresses, source.on_battery) == ("box", ["192.0.2.5"], True)


class TestDeleting:
    def test_its_assignments_go_with_it_and_one_with_backups_stays(self, program: Program) -> None:
        assignment, backed_up = make_assignment(), make_assignment()
        add_backup(backed_up)
        assert program.delete(f"sources/{assignment.source_id}").status_code == 204
        answer = program.delete(f"sources/{backed_up.source_id}")
        assert problem_of(answer, 409)["detail"].startswith("the source is in use: 1 backup is recorded: ")
        assert list(Assignment.objects.all()) == [backed_up]
        assert list(Source.objects.all()) == [backed_up.source]


class TestActions:
    def test_back_up_now_unless_it_is_paused(self, program: Program) -> None:
        assignment, paused = make_assignment(), make_assignment(source=make_source(paused_at=timezone.now()))
        answer = program.post(f"sources/{assignment.source_id}/back-up-now")
        assert (answer.status_code, answer.json()) == (200, {"moved": 1})
        facts = problem_of(program.post(f"sources/{paused.source_id}/back-up-now"), 409)
        assert f"/api/sources/{paused.source_id}/resume" in facts["hint"]
        [record] = BacklogRecord.objects.all()
        assert record == record_of(assignment)
        assert (record.status, record.priority) == (Status.READY, 100)

    def test_pause_and_resume(
        self, program: Program, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
    ) -> None:
        assignment = make_assignment()
        with django_capture_on_commit_callbacks(execute=True):
            paused = program.post(f"sources/{assignment.source_id}/pause")
        assert (paused.status_code, paused.json()["status"]) == (200, "paused")
        with django_capture_on_commit_callbacks(execute=True):
            resumed = program.post(f"sources/{assignment.source_id}/resume")
        assert resumed.json()["paused_at"] is None
        assert record_of(assignment)

    def test_a_pause_may_stop_what_runs(self, program: Program) -> None:
        assignment = make_assignment()
        emit_due(MONDAY)
        running = handed_on(assignment, MONDAY)
        asked = BacklogRecord.objects.filter(pk=running.id, cancel_requested_at__isnull=False)
        for query, stops in (("", False), ("?stop=false", False), ("?stop=true", True)):
            assert program.post(f"sources/{assignment.source_id}/pause{query}").status_code == 200
            assert asked.exists() is stops
        assert program.post(f"sources/{assignment.source_id}/pause?stop=perhaps").status_code == 422

    def test_a_check_in_by_a_person_keeps_what_its_agent_said_of_its_addresses(self, program: Program) -> None:
        source = make_source(hostname="box", addresses=["192.0.2.5", "2001:db8::5"], on_battery=True)
        assignment = make_assignment(source=source)
        answer = program.post(f"sources/{source.pk}/check-in")
        assert answer.json()["moved"] == 1
        source.refresh_from_db()
        facts = datetime.fromisoformat(answer.json()["checked_in_at"])
        assert source.checked_in_at
        assert abs(source.checked_in_at - facts) < timedelta(milliseconds=1)
        assert (source.hostname, source.addresses) == ("box", ["192.0.2.5", "2001:db8::5"])
        assert source.on_battery is None, "what its agent said long ago is not believed anew"
        assert record_of(assignment).status == Status.READY

    def test_an_enrolment_code_is_shown_and_works_once(self, program: Program) -> None:
        source = make_source()
        answer = program.post(f"sources/{source.pk}/enrolment-code")
        facts = made(answer)
        assert answer.headers["Cache-Control"] == "no-store"
        assert facts["code"] in facts["command"]
        assert tokens.redeem(facts["code"])[0] == source
        assert "code" not in program.get(f"sources/{source.pk}").json()

    def test_its_tokens_are_revoked(self, program: Program) -> None:
        source = make_source()
        token = tokens.issue(source)
        assert program.post(f"sources/{source.pk}/revoke-tokens").json() == {"revoked": 1}
        assert tokens.authenticate(token) is None

    def test_there_is_nothing_to_be_done_about_what_is_not_there(self, program: Program) -> None:
        for action in ("back-up-now", "pause", "resume", "check-in", "enrolment-code", "revoke-tokens"):
            problem_of(program.post(f"sources/999/{action}"), 404)
