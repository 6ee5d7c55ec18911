"""Stored secrets: they go in on every surface and come out on none; what is sealed is sealed again by one command."""

import getpass
import io
import json
import sys
from collections.abc import Callable
from typing import Any

import pydantic
import pytest
from django.core.management import CommandError, call_command

from api.fields import partial
from audit.models import AuditEntry
from backups.specifications import specification_of
from external.processes.runner import Command
from fleet.files.apply import apply_fleet
from fleet.files.schema import FleetError, export_fleet
from jobs.models import Decision
from sealing.declarations import NewStoredSecret
from sealing.encryption import unseal
from sealing.lookup import SecretNotFound, read_secret, store_secret
from sealing.models import StoredSecret
from sealing.stored_secrets import store
from sources.models import Source
from tests.api.asking import Program, fields_of, make_user, problem_of
from tests.backups.stored_sources import LAPTOP
from tests.people import staff
from tests.sealing.secrets_in_use import KEY, SECRET, refused, run

pytestmark = pytest.mark.django_db

LIST = "/admin/delivery/storedsecret/"


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    return lambda text: monkeypatch.setattr(sys, "stdin", io.StringIO(text))


def lines_of_the_log() -> list[str]:
    return [row.text for row in Decision.objects.order_by("pk")]


class TestByReference:
    def test_a_stored_one_is_read_and_what_is_wrong_with_it_says_what_to_do(self, settings: Any) -> None:
        settings.SECRET_KEY = "old"
        assert store_secret("nas", SECRET) == "stored:nas"
        assert SECRET not in StoredSecret.objects.get().sealed
        assert read_secret("stored:nas") == SECRET
        with pytest.raises(ValueError, match=r"name: there is a stored secret with this name already"):
            store_secret("nas", "another")
        assert read_secret("stored:nas") == SECRET
        with pytest.raises(SecretNotFound, match=r"^there is no stored secret none: store it by `manage.py secrets"):
            read_secret("stored:none")
        settings.SECRET_KEY = "new"
        with pytest.raises(SecretNotFound, match=r"nas cannot be opened: .* SECRET_KEY_FALLBACKS.* set nas`"):
            read_secret("stored:nas")

    @pytest.mark.parametrize("name", ["", "a b", "-x", "../etc", "a:b", "n" * 101, "nas\n"])
    def test_a_name_is_one_that_a_reference_can_hold(self, name: str) -> None:
        with pytest.raises(ValueError, match=r"^name: has 1 to 100 letters"):
            store_secret(name, SECRET)
        with pytest.raises(SecretNotFound, match="must say where the password is found, as stored:NAME, env:"):
            read_secret(f"stored:{name}")


def test_no_repr_and_no_traceback_shows_a_secret() -> None:
    new = {"name": "a b", "value": SECRET}
    for declaration in (NewStoredSecret, partial(NewStoredSecret)):
        with pytest.raises(pydantic.ValidationError) as caught:
            declaration.model_validate(new | {"value": [SECRET]})
        assert "swordfish" not in f"{caught.value!s} {caught.value!r}"
        assert "swordfish" not in repr(declaration.model_construct(**new))
    store("laptop", SECRET)
    specification = specification_of(Source(**LAPTOP | {"secret": "stored:laptop"}))
    assert specification.secret == SECRET
    command = Command(("rclone",), environment={"PASS": SECRET}, given=SECRET.encode())
    assert "swordfish" not in f"{specification!r} {command!r} {StoredSecret.objects.get()!r}"


class TestByTheApi:
    def test_goes_in_is_replaced_and_deleted_and_never_comes_out(self) -> None:
        program = Program(make_user("set_secret_of_source", "add_source", "change_source"))
        made = program.post("stored-secrets", {"name": "nas", "value": SECRET}, Idempotency_Key="once")
        assert made.status_code == 201, made.content
        address = f"stored-secrets/{made.json()['id']}"
        used = program.post("sources", LAPTOP | {"secret": "stored:nas"})
        assert used.status_code == 201, used.content
        seen = program.get(address)
        assert seen.json().keys() == {"id", "name", "changed_at", "used_by"}
        assert seen.json()["used_by"] == {"source": ["laptop"]}
        replaced = program.patch(address, {"value": KEY + "\n"}, If_Match=seen["ETag"])
        assert read_secret("stored:nas") == KEY
        assert replaced["ETag"] != seen["ETag"]
        in_use = problem_of(program.delete(address), 409)
        assert "nas is used by the source laptop: give it another secret first" in in_use["detail"]
        assert fields_of(program.patch(address, {"name": "other"})) == {
            "name": "stays: what uses the secret refers to it by name; store another one"
        }
        assert program.patch(f"sources/{used.json()['id']}", {"secret": "env:BACKUP_SECRET_X"}).status_code == 200
        assert program.delete(address).status_code == 204
        assert fields_of(program.patch(f"sources/{used.json()['id']}", {"secret": "stored:nas"}))["secret"].startswith(
            "there is no stored secret nas"
        )
        entries = [str(each) for each in AuditEntry.objects.filter(name="nas").values()]
        assert len(entries) == 3
        assert [line.split(" ", 2)[2] for line in lines_of_the_log() if "the secret" in line] == [
            "stored the secret nas", "replaced the secret nas", "deleted the secret nas",
        ]  # fmt: skip
        answers = [each.content.decode() for each in (made, seen, replaced, program.get("stored-secrets"))]
        assert not [text for text in (*answers, *entries) if "swordfish" in text or "BEGIN" in text]

    def test_what_is_wrong_is_named_without_the_secret(self) -> None:
        program = Program()
        answer = program.post("stored-secrets", {"name": "a b", "value": SECRET + "\0"})
        assert fields_of(answer).keys() == {"name", "value"}
        assert "swordfish" not in answer.content.decode()
        broken = program.post("stored-secrets", {"name": "key", "value": KEY.replace("\n", " ")})
        assert "is a key whose lines ran into one" in fields_of(broken)["value"]
        assert fields_of(program.post("stored-secrets", {"name": "nas", "value": ""})) == {"value": "is missing"}

    def test_an_account_that_may_not_set_references_stores_none(self) -> None:
        store("nas", SECRET)
        address = f"stored-secrets/{StoredSecret.objects.get().pk}"
        editor = Program(make_user("view_storedsecret", "add_source", "change_source", "delete_source"))
        assert editor.get(address).status_code == 200
        for refusal in (
            editor.post("stored-secrets", {"name": "other", "value": SECRET}),
            editor.patch(address, {"value": "mine"}),
            editor.delete(address),
        ):
            assert refusal.status_code == 403
        assert "may not set where" in fields_of(editor.post("sources", LAPTOP | {"secret": "stored:nas"}))["secret"]
        assert read_secret("stored:nas") == SECRET


class TestInTheAdmin:
    def test_is_typed_in_and_never_shown_again(self) -> None:
        keeper = staff("set_secret_of_source")
        assert keeper.post(f"{LIST}add/", {"name": "nas", "value": SECRET}).status_code == 302
        row = StoredSecret.objects.get()
        assert unseal(row.sealed) == SECRET
        Source.objects.create(**LAPTOP | {"secret": "stored:nas"})
        page = f"{LIST}{row.pk}/change/"
        assert keeper.post(page, {"value": "new swordfish"}).status_code == 302
        assert read_secret("stored:nas") == "new swordfish"
        kept = keeper.post(page, {"value": ""})
        assert "This field is required" in kept.content.decode()
        deleted = keeper.get(f"{LIST}{row.pk}/delete/").content.decode()
        assert "nas is used by the source laptop" in deleted
        shown = deleted + "".join(
            keeper.get(at).content.decode() for at in (page, LIST, f"{LIST}{row.pk}/history/", f"{LIST}add/")
        )
        assert 'type="password"' in shown
        assert "source laptop" in shown
        row.refresh_from_db()
        entries = str(list(AuditEntry.objects.values()))
        assert not [each for each in ("swordfish", row.sealed) if each in shown + entries]
        assert "'changed'" in entries

    def test_an_account_that_may_only_look_sees_no_form(self) -> None:
        store("nas", SECRET)
        page = f"{LIST}{StoredSecret.objects.get().pk}/change/"
        onlooker = staff("view_storedsecret", "change_source")
        assert 'type="password"' not in onlooker.get(page).content.decode()
        assert onlooker.post(page, {"value": "mine"}).status_code == 403
        assert staff("change_source").get(LIST).status_code == 403


class TestAtTheCommandLine:
    def test_set_list_and_delete(self, pipe: Callable[[str], None]) -> None:
        pipe(f"{SECRET}\n")
        assert "nas is stored: refer to it as stored:nas" in run("set", "nas")
        assert read_secret("stored:nas") == SECRET
        pipe(KEY + "\n")
        assert json.loads(run("set", "nas", "--json")) == {"name": "nas", "reference": "stored:nas", "is_new": False}
        assert read_secret("stored:nas") == KEY
        Source.objects.create(**LAPTOP | {"secret": "stored:nas"})
        [row] = json.loads(run("list", "--json"))
        assert (row["name"], row["used_by"]) == ("nas", {"source": ["laptop"]})
        assert "source laptop" in run()
        refused("remove", "nas", "--yes", code=1)
        Source.objects.all().delete()
        refused("remove", "nas")  # there is no terminal to ask at
        run("remove", "nas", "--yes")
        assert "There are no stored secrets" in run()
        assert lines_of_the_log()[-1] == "a user at the command line deleted the secret nas"

    def test_what_is_wrong_ends_with_2_and_stores_nothing(self, pipe: Callable[[str], None]) -> None:
        pipe("")
        assert "value: is missing" in refused("set", "nas")
        pipe(SECRET * 10_000)
        assert "value: must have at most 65536 characters" in refused("set", "nas")
        with pytest.raises(CommandError):
            call_command("secrets", "set", "nas", SECRET)  # never as an argument
        assert not StoredSecret.objects.exists()

    def test_a_person_types_it_twice_and_sees_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        typed = [SECRET, "sword fish", SECRET, SECRET]
        monkeypatch.setattr(sys, "stdin", type("Terminal", (), {"isatty": lambda self: True})())
        monkeypatch.setattr(getpass, "getpass", lambda prompt: typed.pop(0))
        assert "two different secrets" in refused("set", "nas")
        run("set", "nas")
        assert read_secret("stored:nas") == SECRET


class TestInAFleetFile:
    def test_a_reference_goes_by_name_and_a_missing_one_says_what_to_do(self) -> None:
        store("nas", SECRET)
        fleet = {"sources": [LAPTOP | {"secret": "stored:nas"}, LAPTOP | {"name": "b", "secret": "stored:none"}]}
        with pytest.raises(FleetError) as caught:
            apply_fleet(fleet, "fleet.yaml")
        [problem] = caught.value.errors
        assert "sources[1] (b): secret: there is no stored secret none: store it by `manage.py secrets set" in problem
        apply_fleet({"sources": fleet["sources"][:1]}, "fleet.yaml")
        exported = export_fleet()
        assert exported["sources"][0]["secret"] == "stored:nas"
        assert "swordfish" not in str(exported)
