"""Rules that hold for every resource, most of them seen at throttles: pages, ETags, refusals, references."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from audit.models import AuditEntry
from delivery.models import Endpoint
from jobs.models import Throttle
from operations import throttles
from operations.declarations import Throttles
from schedules.models import Schedule
from sources.models import Policy, Source
from tests.api.asking import Program, fields_of, found, ids_of, made, pages_of, problem_of
from tests.factories import NOON, make_lane, make_record, make_retry_policy, make_schedule, make_throttle
from tests.schedules.event_records import delivered, make_event_schedule, make_trigger
from tests.schedules.factories import make_events
from tests.sources.factories import make_assignment, make_policy, make_source

pytestmark = pytest.mark.django_db

BODY = {"name": "hooks", "max_in_flight": 5, "rate": 2.5, "burst": 10}


class TestCreating:
    def test_what_was_made_is_answered_with_its_place_and_etag(self, program: Program) -> None:
        answer = program.post("throttles", BODY)
        facts, row = made(answer), Throttle.objects.get()
        assert answer.headers["Location"] == f"/api/throttles/{row.pk}"
        assert {name: facts[name] for name in BODY} == BODY
        read = program.get(answer.headers["Location"])
        assert (read.headers["ETag"], read.json()["id"]) == (answer.headers["ETag"], row.pk)
        [line] = AuditEntry.objects.filter(about="jobs.throttle")
        assert (line.who, line.via, line.verb) == (program.user.username, "API, token a program", "created")

    @pytest.mark.parametrize(
        ("change", "field"),
        [
            ({"name": ""}, "name"), ({"name": "a\nb"}, "name"), ({"name": "x" * 101}, "name"), ({"name": None}, "name"),
            ({"max_in_flight": -1}, "max_in_flight"), ({"max_in_flight": "5"}, "max_in_flight"),
            ({"max_in_flight": True}, "max_in_flight"), ({"max_in_flight": 2**70}, "max_in_flight"),
            ({"rate": 0}, "rate"), ({"burst": 1.5}, "burst"), ({"maximum": 5}, "maximum"), ({"tokens": 5}, "tokens"),
            ({"na\0me": 1}, "na?me"), ({"\ud800": 1}, "body"), ({"id": 7}, "id"),
        ],
    )  # fmt: skip
    def test_a_bad_field_is_named(self, change: dict[str, Any], field: str, program: Program) -> None:
        assert list(fields_of(program.post("throttles", BODY | change))) == [field]
        assert not Throttle.objects.exists()

    def test_all_that_is_wrong_is_told_at_once(self, program: Program) -> None:
        assert fields_of(program.post("throttles", {"max_in_flight": "x", "more": 1})) == {
            "name": "is missing", "max_in_flight": "must be a whole number", "more": "is unknown here",
        }  # fmt: skip

    def test_a_name_that_is_taken_is_named_also_when_that_happens_after_the_check(
        self, program: Program, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fill = Throttles.fill

        def then_it_is_taken(*given: Any) -> Any:
            changed = fill(*given)
            Throttle.objects.create(name="hooks", max_in_flight=1)
            return changed

        with monkeypatch.context() as patch:
            patch.setattr(Throttles, "fill", then_it_is_taken)
            assert list(fields_of(program.post("throttles", BODY))) == ["name"]
        program.post("throttles", BODY)
        assert list(fields_of(program.post("throttles", BODY))) == ["name"]

    @pytest.mark.parametrize("body", ['{"rate": NaN}', "{", "\ud800x", ""])
    def test_what_is_no_json_object_is_refused(self, body: str, program: Program) -> None:
        problem_of(program.post("throttles", body.encode(errors="surrogatepass")), 400 if body else 422)


class TestWarnings:
    def test_what_a_save_warns_of_is_in_its_answer_as_the_command_prints_it_and_nowhere_else(
        self, program: Program
    ) -> None:
        answer, again = (program.post("throttles", BODY | {"max_in_flight": 0}, Idempotency_Key="k") for _ in range(2))
        assert made(answer)["warnings"] == throttles.warnings(Throttle.objects.get()) != []
        assert again.json() == answer.json() | {"warnings": []}
        path, paused = answer.headers["Location"], answer.json()["warnings"]
        for sent, warned in ({"rate": 3.5}, paused), ({"rate": 3.5}, []), ({"max_in_flight": 5}, []):
            answer = program.patch(path, sent)
            assert (answer.status_code, answer.json()["warnings"]) == (200, warned), sent
        read = program.get(path)
        assert ("warnings" in read.json(), read.headers["ETag"]) == (False, answer.headers["ETag"])


class TestReading:
    def test_pages_are_whole_in_any_ordering_while_rows_come_and_go(self, program: Program) -> None:
        rows = [make_throttle(cap).pk for cap in (3, 1, 2, 1, 3)]
        for ordering, expected in {
            "max_in_flight": [1, 3, 2, 0, 4], "-max_in_flight": [4, 0, 2, 3, 1], "id": [0, 1, 2, 3, 4],
            "-id": [4, 3, 2, 1, 0],
        }.items():  # fmt: skip
            assert pages_of(program, "throttles", ordering=ordering) == [rows[place] for place in expected], ordering
        after = found(program.get("throttles", limit=1))["next"]
        Throttle.objects.filter(pk=rows[0]).delete()
        assert ids_of(program.get("throttles", limit=1, after=after)) == [rows[1]]

    def test_what_has_no_value_comes_last_in_both_directions(self, program: Program) -> None:
        instants = [None, NOON, None, NOON + timedelta(hours=1), None]
        rows = [make_schedule(next_trigger_at=at).pk for at in instants]
        for ordering, expected in {"next_trigger_at": [1, 3, 0, 2, 4], "-next_trigger_at": [3, 1, 4, 2, 0]}.items():
            assert pages_of(program, "schedules", ordering=ordering) == [rows[place] for place in expected], ordering

    @pytest.mark.parametrize("after", ["x", "", "-1", "1.0", "٣", "9223372036854775808", "9" * 5000])
    def test_what_is_no_id_to_begin_after_is_named(self, after: str, program: Program) -> None:
        assert list(fields_of(program.get("throttles", after=after), 400)) == ["after"]

    def test_a_page_of_an_ordering_begins_after_a_row_that_has_its_place_there(self, program: Program) -> None:
        rows = [make_throttle(cap) for cap in (1, 2, 3)]
        rows[0].delete()
        assert ids_of(program.get("throttles", after=0)) == [rows[1].pk, rows[2].pk]
        wrong = fields_of(program.get("throttles", after=rows[0].pk or 1, ordering="max_in_flight"), 400)
        assert "begin again" in wrong["after"]
        waiting = make_record()
        assert list(fields_of(program.get("records", after=waiting.pk, ordering="-finished_at"), 400)) == ["after"]

    @pytest.mark.parametrize(
        ("query", "field"),
        [
            ({"limit": 0}, "limit"), ({"limit": 501}, "limit"), ({"limit": "x"}, "limit"), ({"name": ""}, "name"),
            ({"ordering": "rate"}, "ordering"), ({"paused": "perhaps"}, "paused"), ({"pause": "1"}, "pause"),
            ({"a\nb": 1}, "a?b"),
        ],
    )  # fmt: skip
    def test_a_bad_or_unknown_parameter_is_named(self, query: dict[str, Any], field: str, program: Program) -> None:
        assert list(fields_of(program.get("throttles", **query))) == [field]

    def test_an_unknown_one_is_not_there(self, program: Program) -> None:
        for row_id in ("0", "7", "9223372036854775808", "9" * 5000, "x", "-1"):
            problem_of(program.get(f"throttles/{row_id}"), 404)

    @pytest.mark.parametrize("path", ["schedules", "sources", "assignments", "records"])
    def test_many_cost_no_more_queries_than_one(
        self, path: str, program: Program, django_assert_num_queries: DjangoAssertNumQueries
    ) -> None:
        events = make_event_schedule(name="events") if path == "records" else None
        if events:
            make_trigger(events)

        def make(number: int) -> None:
            if events:
                delivered(events, number)
            elif path == "schedules":
                endpoint = Endpoint.objects.create(name=f"e {number}", url="https://example.com/")
                make_schedule(throttle=make_throttle(1), retry_policy=make_retry_policy(), endpoint=endpoint)
            else:
                make_assignment()

        make(1)
        program.get(path)  # its token notes once that it is used
        with CaptureQueriesContext(connection) as of_one:
            assert len(ids_of(program.get(path))) == 1
        for number in range(2, 6):
            make(number)
        with django_assert_num_queries(len(of_one)):
            assert len(ids_of(program.get(path))) == 5


class TestChanging:
    def test_what_is_left_out_of_a_patch_stays_and_what_stays_is_not_written(
        self, program: Program, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The content of a throttle's bucket changes while the throttle is edited."""
        created = program.post("throttles", BODY)
        path, written, save = created.headers["Location"], [], Throttle.save
        monkeypatch.setattr(
            Throttle, "save", lambda row, **given: (written.append(given["update_fields"]), save(row, **given))
        )
        answer = program.patch(path, BODY, If_Match=created.headers["ETag"])
        assert (answer.headers["ETag"], AuditEntry.objects.filter(about="jobs.throttle").count(), written) == (
            created.headers["ETag"],
            1,
            [],
        )
        answer = program.patch(path, BODY | {"rate": None})
        assert (answer.status_code, answer.json()["rate"], answer.json()["burst"]) == (200, None, 10)
        assert program.patch(path, {"max_in_flight": 7}).json()["burst"] == 10
        assert written == [["rate"], ["max_in_flight"]]
        changes = AuditEntry.objects.filter(about="jobs.throttle", verb="changed").order_by("pk")
        assert [list(each.after) for each in changes] == written

    def test_a_stale_etag_changes_nothing_and_any_of_several_matches(self, program: Program) -> None:
        created = program.post("throttles", BODY)
        path, etag = created.headers["Location"], created.headers["ETag"]
        changed = program.patch(path, {"max_in_flight": 6}, If_Match=f'"other", {etag}')
        assert (changed.status_code, changed.headers["ETag"] == etag) == (200, False)
        for stale in (etag, f"W/{changed.headers['ETag']}"):
            problem_of(program.patch(path, BODY | {"max_in_flight": 7}, If_Match=stale), 412)
            problem_of(program.delete(path, If_Match=stale), 412)
        for none in ("x", '"a', "", "W/x", f"{changed.headers['ETag']}, x"):
            problem_of(program.patch(path, {"max_in_flight": 7}, If_Match=none), 400)
        assert Throttle.objects.get().max_in_flight == 6
        assert program.patch(path, {}, If_Match="*").status_code == 200
        assert program.delete(path, If_Match=changed.headers["ETag"]).status_code == 204

    @pytest.mark.parametrize(
        ("path", "make", "move"),
        [
            ("throttles", lambda: make_throttle(3), lambda: make_record(lane=make_lane(Throttle.objects.get()))),
            ("schedules", make_events, lambda: Schedule.objects.update(next_trigger_at=NOON)),
            ("policies", make_policy, lambda: make_assignment(Policy.objects.get())),
            ("sources", make_source, lambda: Source.objects.update(checked_in_at=NOON, paused_at=timezone.now())),
            ("retry-policies", lambda: make_retry_policy(algorithm="sidekiq", parameters={}), lambda: None),
        ],
    )
    def test_what_machines_move_is_no_part_of_the_etag(
        self, path: str, make: Callable[[], Any], move: Callable[[], Any], program: Program
    ) -> None:
        one = f"{path}/{make().pk}"
        before = program.get(one)
        move()
        after = program.get(one)
        assert before.json() != after.json()
        assert before.headers["ETag"] == after.headers["ETag"]
        name = found(after)["name"]
        assert program.patch(one, {"name": f"{name} 2"}, If_Match=before.headers["ETag"]).status_code == 200
        problem_of(program.patch(one, {"name": name}, If_Match=before.headers["ETag"]), 412)


class TestDeleting:
    def test_what_is_used_stays_and_its_users_are_named_also_when_they_come_after_the_check(
        self, program: Program, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        throttle = make_throttle(1)
        make_schedule(name="hourly", throttle=throttle)
        first = problem_of(program.delete(f"throttles/{throttle.pk}"), 409)
        monkeypatch.setattr(Throttles, "uses", lambda service, row: [])
        for problem in (first, problem_of(program.delete(f"throttles/{throttle.pk}"), 409)):
            assert "by the schedule hourly" in problem["detail"]
            assert "`detail`" in problem["hint"]
        assert (Throttle.objects.count(), AuditEntry.objects.filter(verb="deleted").count()) == (1, 0)


class TestReferences:
    def test_keep_the_etag_when_what_they_name_is_renamed(self, program: Program) -> None:
        throttle = make_throttle(3)
        schedule = make_schedule(throttle=throttle)
        etag = program.get(f"schedules/{schedule.pk}").headers["ETag"]
        found(program.patch(f"throttles/{throttle.pk}", {"name": "renamed"}))
        again = program.get(f"schedules/{schedule.pk}")
        assert (found(again)["throttle"], again.headers["ETag"]) == ("renamed", etag)
