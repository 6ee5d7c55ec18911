"""What holds for every resource, seen at throttles: pages, ETags, keys, refusals, and who may."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.test import Client

from api.models import IdempotencyKey
from api.pruning import prune
from api.resources import etag_of
from delivery.models import Endpoint
from jobs.clock import database_clock
from jobs.models import Throttle
from operations import throttles
from operations.declarations import Throttles
from tests.api.asking import Program, fields_of, make_user, problem_of
from tests.factories import NOON, make_schedule, make_throttle

pytestmark = pytest.mark.django_db


def pages_of(program: Program, path: str, **query: Any) -> list[int]:
    """The ids of a list, read in pages of two."""
    found, cursor = [], None
    while True:
        page = program.get(path, limit=2, **query, **({"cursor": cursor} if cursor else {})).json()
        found += [each["id"] for each in page["items"]]
        cursor = page["next"]
        if cursor is None:
            return found


BODY = {"name": "hooks", "max_in_flight": 5, "rate": 2.5, "burst": 10}


class TestCreating:
    def test_what_was_made_is_answered_with_its_place_and_etag(self, program: Program) -> None:
        answer = program.post("throttles", BODY)
        assert answer.status_code == 201, answer.content
        made = Throttle.objects.get()
        assert answer.headers["Location"] == f"/api/throttles/{made.pk}"
        facts = answer.json()
        assert {name: facts[name] for name in BODY} == BODY
        read = program.get(answer.headers["Location"])
        assert (read.headers["ETag"], read.json()["id"]) == (answer.headers["ETag"], made.pk)
        [line] = LogEntry.objects.all()
        assert (line.user, line.change_message) == (program.user, "Created by the API, token a program.")

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

    def test_a_name_that_is_taken_is_named(self, program: Program) -> None:
        program.post("throttles", BODY)
        assert list(fields_of(program.post("throttles", BODY))) == ["name"]

    def test_a_name_that_is_taken_after_the_check_is_told_the_same(
        self, program: Program, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Somebody else saves it between the check and the save."""
        fill = Throttles.fill

        def then_it_is_taken(*given: Any) -> Any:
            changed = fill(*given)
            Throttle.objects.create(name="hooks", max_in_flight=1)
            return changed

        monkeypatch.setattr(Throttles, "fill", then_it_is_taken)
        assert list(fields_of(program.post("throttles", BODY))) == ["name"]

    @pytest.mark.parametrize(
        "body",
        [
            '{"rate": NaN}',
            "{",
            "\ud800x",
        ],
    )
    def test_what_is_no_json_object_is_refused(self, body: str, program: Program) -> None:
        problem_of(program.post("throttles", body.encode(errors="surrogatepass")), 400)

    def test_no_body_is_refused(self, program: Program) -> None:
        problem_of(program.post("throttles"), 422)


class TestWarnings:
    def test_what_a_save_warns_of_is_in_its_answer_as_the_command_prints_it_and_nowhere_else(
        self, program: Program
    ) -> None:
        made, again = (program.post("throttles", BODY | {"max_in_flight": 0}, Idempotency_Key="k") for _ in range(2))
        assert made.json()["warnings"] == throttles.warnings(Throttle.objects.get()) != []
        assert again.json() == made.json() | {"warnings": []}
        path = made.headers["Location"]
        for sent, warned in ({"rate": 3.5}, made.json()["warnings"]), ({"rate": 3.5}, []), ({"max_in_flight": 5}, []):
            answer = program.patch(path, sent)
            assert (answer.status_code, answer.json()["warnings"]) == (200, warned), sent
        read = program.get(path)
        assert ("warnings" in read.json(), read.headers["ETag"]) == (False, answer.headers["ETag"])


class TestReading:
    def test_pages_are_whole_in_any_ordering_while_rows_come_and_go(self, program: Program) -> None:
        made = [make_throttle(cap).pk for cap in (3, 1, 2, 1, 3)]
        for ordering, expected in {
            "max_in_flight": [1, 3, 2, 0, 4], "-max_in_flight": [4, 0, 2, 3, 1], "id": [0, 1, 2, 3, 4],
            "-id": [4, 3, 2, 1, 0],
        }.items():  # fmt: skip
            found = pages_of(program, "throttles", ordering=ordering)
            assert found == [made[place] for place in expected], ordering

    def test_the_row_at_a_cursor_may_go(self, program: Program) -> None:
        made = [make_throttle(1).pk for _ in range(3)]
        page = program.get("throttles", limit=1).json()
        Throttle.objects.filter(pk=made[0]).delete()
        following = program.get("throttles", limit=1, cursor=page["next"]).json()
        assert [each["id"] for each in following["items"]] == [made[1]]

    def test_what_has_no_value_comes_last_in_both_directions(self, program: Program) -> None:
        instants = [None, NOON, None, NOON + timedelta(hours=1), None]
        made = [make_schedule(next_trigger_at=at).pk for at in instants]
        for ordering, expected in {"next_trigger_at": [1, 3, 0, 2, 4], "-next_trigger_at": [3, 1, 4, 2, 0]}.items():
            assert pages_of(program, "schedules", ordering=ordering) == [made[place] for place in expected], ordering

    def test_a_cursor_belongs_to_its_list_and_its_ordering(self, program: Program) -> None:
        [make_throttle(1) for _ in range(2)]
        cursor = program.get("throttles", limit=1).json()["next"]
        forged = cursor[:-2] + ("b" if cursor[-2] == "a" else "a") + cursor[-1]
        for query in ({"ordering": "-id", "cursor": cursor}, {"cursor": forged}, {"cursor": "1"}):
            assert list(fields_of(program.get("throttles", **query))) == ["cursor"]
        assert list(fields_of(program.get("retry-policies", ordering="id", cursor=cursor))) == ["cursor"]

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

    def test_it_is_filtered(self, program: Program) -> None:
        paused, open_one = make_throttle(0), make_throttle(1)
        for query, found in (
            ({"paused": "true"}, paused),
            ({"paused": "false"}, open_one),
            ({"name": paused.name}, paused),
        ):
            assert [each["id"] for each in program.get("throttles", **query).json()["items"]] == [found.pk]

    def test_an_unknown_one_is_not_there(self, program: Program) -> None:
        for row_id in ("0", "7", "9223372036854775808", "9" * 5000, "x", "-1"):
            problem_of(program.get(f"throttles/{row_id}"), 404)


class TestChanging:
    def test_what_is_left_out_of_a_patch_stays(self, program: Program) -> None:
        path = program.post("throttles", BODY).headers["Location"]
        answer = program.patch(path, {"rate": None})
        assert (answer.status_code, answer.json()["rate"], answer.json()["burst"]) == (200, None, 10)
        assert LogEntry.objects.first().change_message == "Changed rate by the API, token a program."

    def test_a_stale_etag_changes_nothing(self, program: Program) -> None:
        created = program.post("throttles", BODY)
        path, etag = created.headers["Location"], created.headers["ETag"]
        changed = program.patch(path, {"max_in_flight": 6}, If_Match=etag)
        assert (changed.status_code, changed.headers["ETag"] == etag) == (200, False)
        problem_of(program.patch(path, BODY | {"max_in_flight": 7}, If_Match=etag), 412)
        problem_of(program.delete(path, If_Match=etag), 412)
        assert Throttle.objects.get().max_in_flight == 6
        assert program.delete(path, If_Match=changed.headers["ETag"]).status_code == 204

    def test_what_is_sent_again_unchanged_keeps_the_etag_and_writes_no_history(self, program: Program) -> None:
        created = program.post("throttles", BODY)
        answer = program.patch(created.headers["Location"], BODY, If_Match=created.headers["ETag"])
        assert (answer.headers["ETag"], LogEntry.objects.count()) == (created.headers["ETag"], 1)

    @pytest.mark.parametrize("sent", ["x", '"a', "", "W/x"])
    def test_an_if_match_that_is_none_is_refused(self, sent: str, program: Program) -> None:
        path = program.post("throttles", BODY).headers["Location"]
        problem_of(program.patch(path, {"max_in_flight": 6}, If_Match=sent), 400)

    def test_any_of_several_etags_matches_and_a_weak_one_does_not(self, program: Program) -> None:
        created = program.post("throttles", BODY)
        path, etag = created.headers["Location"], created.headers["ETag"]
        assert program.patch(path, {}, If_Match=f'"other", {etag}').status_code == 200
        assert program.patch(path, {}, If_Match="*").status_code == 200
        problem_of(program.patch(path, {}, If_Match=f"W/{etag}"), 412)

    def test_live_numbers_are_no_part_of_the_etag(self) -> None:
        assert etag_of({"a": 1, "live": 2}, ("live",)) == etag_of({"a": 1, "live": 3}, ("live",))
        assert etag_of({"a": 1}) != etag_of({"a": 2})

    def test_only_what_differs_is_written(self, program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
        """What lies in the bucket of a throttle moves while it is edited."""
        path = program.post("throttles", BODY).headers["Location"]
        written: list[Any] = []
        save = Throttle.save
        monkeypatch.setattr(
            Throttle, "save", lambda row, **given: (written.append(given["update_fields"]), save(row, **given))
        )
        program.patch(path, BODY | {"rate": 3.5})
        assert written == [["rate"]]


class TestDeleting:
    def test_what_is_used_stays_and_its_users_are_named(self, program: Program) -> None:
        throttle = make_throttle(1)
        make_schedule(name="hourly", throttle=throttle)
        problem = problem_of(program.delete(f"throttles/{throttle.pk}"), 409)
        assert "by the schedule hourly" in problem["detail"]
        assert "`detail`" in problem["hint"]
        assert Throttle.objects.exists()
        assert not LogEntry.objects.exists()

    def test_what_came_into_use_after_the_check_stays_and_says_what_to_do(
        self, program: Program, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        throttle = make_throttle(1)
        make_schedule(name="hourly", throttle=throttle)
        monkeypatch.setattr(Throttles, "uses", lambda service, row: [])
        problem = problem_of(program.delete(f"throttles/{throttle.pk}"), 409)
        assert "hourly" in problem["detail"]
        assert "`detail`" in problem["hint"]

    def test_of_an_endpoint_the_hint_leads_to_what_is_told(self, program: Program) -> None:
        endpoint = Endpoint.objects.create(name="receiver", url="https://example.com/")
        make_schedule(name="hourly", endpoint=endpoint)
        problem = problem_of(program.delete(f"endpoints/{endpoint.pk}"), 409)
        assert "another endpoint" in problem["detail"]
        assert "`detail`" in problem["hint"]

    def test_what_is_gone_is_not_there(self, program: Program) -> None:
        throttle = make_throttle(1)
        answer = program.delete(f"throttles/{throttle.pk}")
        assert (answer.status_code, answer.content) == (204, b"")
        problem_of(program.delete(f"throttles/{throttle.pk}"), 404)


class TestIdempotencyKeys:
    def test_the_same_request_gets_the_same_answer_and_creates_once(self, program: Program) -> None:
        first = program.post("throttles", BODY, Idempotency_Key="k-1")
        second = program.post("throttles", BODY, Idempotency_Key="k-1")
        assert (second.status_code, second.content) == (201, first.content)
        for header in ("Location", "ETag", "Content-Type"):
            assert second.headers[header] == first.headers[header]
        assert (second.headers.get("Idempotent-Replayed"), first.headers.get("Idempotent-Replayed")) == ("true", None)
        assert Throttle.objects.count() == 1

    def test_another_request_with_it_is_refused(self, program: Program) -> None:
        program.post("throttles", BODY, Idempotency_Key="k-1")
        assert list(fields_of(program.post("throttles", BODY | {"rate": 3.5}, Idempotency_Key="k-1"))) == [
            "Idempotency-Key"
        ]

    def test_keys_belong_to_who_sends_them(self, program: Program) -> None:
        program.post("throttles", BODY, Idempotency_Key="k-1")
        other = Program()
        assert other.post("throttles", BODY | {"name": "other"}, Idempotency_Key="k-1").status_code == 201

    def test_who_was_refused_may_send_something_better_with_it(self, program: Program) -> None:
        problem_of(program.post("throttles", BODY | {"rate": 0}, Idempotency_Key="k-1"), 422)
        assert program.post("throttles", BODY, Idempotency_Key="k-1").status_code == 201

    @pytest.mark.parametrize("key", ["", "a b", "x" * 256, "é"])
    def test_what_is_no_key_is_refused(self, key: str, program: Program) -> None:
        assert list(fields_of(program.post("throttles", BODY, Idempotency_Key=key))) == ["Idempotency-Key"]
        assert not Throttle.objects.exists()

    def test_what_it_stores_of_the_request_cannot_be_guessed_from(self, program: Program) -> None:
        program.post("throttles", BODY, Idempotency_Key="k-1")
        stored = IdempotencyKey.objects.get()
        assert (stored.status, len(stored.request_digest)) == (201, 64)

    def test_after_a_day_a_key_is_as_good_as_new(self, program: Program) -> None:
        program.post("throttles", BODY, Idempotency_Key="k-1")
        IdempotencyKey.objects.update(created_at=database_clock() - timedelta(hours=24))
        answer = program.post("throttles", BODY | {"name": "other"}, Idempotency_Key="k-1")
        assert (answer.status_code, answer.headers.get("Idempotent-Replayed")) == (201, None)

    def test_old_ones_are_forgotten(self, program: Program) -> None:
        for number in range(2):
            program.post("throttles", BODY | {"name": f"{number}"}, Idempotency_Key=f"{number}")
        IdempotencyKey.objects.filter(key="0").update(created_at=NOON)
        assert prune(NOON + timedelta(hours=23, minutes=59)) == 0
        assert prune(NOON + timedelta(hours=24)) == 1
        assert IdempotencyKey.objects.get().key == "1"


class TestWhoMay:
    ASKED = (
        ("GET", "throttles", "view", "read"),
        ("GET", "throttles/{}", "view", "read"),
        ("POST", "throttles", "add", "write"),
        ("PATCH", "throttles/{}", "change", "write"),
        ("DELETE", "throttles/{}", "delete", "write"),
    )

    @pytest.mark.parametrize(("method", "path", "verb", "scope"), ASKED)
    def test_scope_and_permission_are_both_needed(self, method: str, path: str, verb: str, scope: str) -> None:
        throttle = make_throttle(1)
        body = BODY if method in ("POST", "PATCH") else None
        path = path.format(throttle.pk)
        others = tuple(each for each in ("read", "write", "operate") if each != scope)
        permissions = [f"{each}_throttle" for each in ("view", "add", "change", "delete")]
        without = [each for each in permissions if not each.startswith((verb, "change" if verb == "view" else verb))]
        problem_of(Program(make_user(*permissions), others).ask(method, path, body), 403)
        problem_of(Program(make_user(*without)).ask(method, path, body), 403)
        assert Throttle.objects.get() == throttle
        allowed = Program(make_user(f"{verb}_throttle"), (scope,)).ask(method, path, body)
        assert allowed.status_code < 300, allowed.content

    def test_a_session_may_without_a_scope_but_with_its_csrf_token(self) -> None:
        user = make_user("add_throttle")
        client = Client()
        client.force_login(user)
        assert client.post("/api/throttles", BODY, content_type="application/json").status_code == 201
        strict = Client(enforce_csrf_checks=True)
        strict.force_login(user)
        problem_of(strict.post("/api/throttles", BODY, content_type="application/json"), 403)

    def test_without_a_login_or_without_being_staff_nothing_is_allowed(self) -> None:
        problem_of(Client().get("/api/throttles"), 401)
        problem_of(Client().post("/api/throttles", BODY, content_type="application/json"), 401)
        problem_of(Program(make_user(is_staff=False, is_superuser=True)).get("throttles"), 403)
        assert User.objects.count() == 1
