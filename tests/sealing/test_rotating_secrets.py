"""Stored secrets are rotated, and who uses one is found, also while both change."""

import json
from typing import Any

import pytest
from django.apps import apps
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from declarations.service import InUse
from delivery.models import Endpoint, SigningSecret
from delivery.signing import rotate
from fleet.source_edits import Sources
from sealing import key_rotation
from sealing.encryption import is_sealed_by_present_key, seal, unseal
from sealing.lookup import read_secret
from sealing.models import StoredSecret
from sealing.stored_secrets import StoredSecrets, store, users_of
from sources.models import Repository, Source
from tests.api.asking import Program, fields_of
from tests.backups.stored_sources import LAPTOP
from tests.delivery.endpoint_rows import make_endpoint
from tests.jobs.worker_processes import Programs
from tests.sealing.secrets_in_use import SECRET, refused, run
from tests.threads import a_lock_is_waited_for, beside, end_what_waits_for_a_lock
from tests.waiting import PATIENCE, eventually

pytestmark = pytest.mark.django_db


class TestRotation:
    @pytest.fixture
    def sealed_by_old_keys(self, settings: Any) -> list[str]:
        """Make secrets of every kind; returns their values."""
        settings.SECRET_KEY = "oldest"
        hooks = make_endpoint(sealed_authorization=seal("Bearer sesame"))
        settings.SECRET_KEY = "old"
        signing = rotate(hooks)
        store("nas", SECRET)
        make_endpoint("without")
        settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "present", ["old", "oldest"]
        store("new", "sealed by the present key")
        return ["Bearer sesame", signing, SECRET, "sealed by the present key"]

    @staticmethod
    def opened() -> list[str]:
        fields = ((field.name, field.model._default_manager.order_by("pk")) for field in key_rotation.sealed_fields())
        return [unseal(text) for name, rows in fields for row in rows if (text := getattr(row, name))]

    def test_afterwards_the_present_key_opens_everything(self, sealed_by_old_keys: list[str], settings: Any) -> None:
        changed_at = StoredSecret.objects.get(name="nas").changed_at
        assert "3 sealed again, 1 were sealed" in run("rotate")
        settings.SECRET_KEY_FALLBACKS = []
        assert sorted(self.opened()) == sorted(sealed_by_old_keys)
        assert StoredSecret.objects.get(name="nas").changed_at == changed_at
        assert json.loads(run("rotate", "--json")) == {"resealed": 0, "current": 4, "unopened": []}

    def test_what_no_key_opens_is_named_and_the_rest_is_done(
        self, sealed_by_old_keys: list[str], settings: Any
    ) -> None:
        settings.SECRET_KEY_FALLBACKS = ["old"]
        wanted = "1 cannot be opened: hooks (endpoint, sealed authorization). Put the SECRET_KEY"
        assert wanted in refused("rotate", code=1)
        settings.SECRET_KEY_FALLBACKS = []
        assert unseal(SigningSecret.objects.get().sealed) == sealed_by_old_keys[1]
        assert Endpoint.objects.get(name="hooks").sealed_authorization

    def test_every_sealed_field_is_known(self) -> None:
        fields = [field for model in apps.get_models() for field in model._meta.concrete_fields]
        assert {str(field) for field in fields if "sealed" in field.name} == {
            str(field) for field in key_rotation.sealed_fields()
        }


class TestOfARepository:
    def test_its_key_is_not_replaced_and_what_it_uses_is_not_deleted(self) -> None:
        key, password = store("key", SECRET), store("password", SECRET)
        rows = {row.name: row for row in StoredSecret.objects.all()}
        secrets = {"pass": password, "key_file_pass": password}
        Repository.objects.create(name="vault", secrets=secrets, encrypted=True, key=key)
        Source.objects.create(**LAPTOP | {"secret": "stored:key"})
        program = Program()
        refusal = fields_of(program.patch(f"stored-secrets/{rows['key'].pk}", {"value": "another"}))
        assert refusal["value"].startswith("stays: only it opens the content of the repository vault")
        assert program.patch(f"stored-secrets/{rows['password'].pk}", {"value": "another"}).status_code == 200
        listed = program.get("stored-secrets").json()["items"]
        assert {each["name"]: each["used_by"] for each in listed} == {
            "key": {"source": ["laptop"], "repository": ["vault"]}, "password": {"repository": ["vault"]},
        }  # fmt: skip
        assert program.delete(f"stored-secrets/{rows['password'].pk}").status_code == 409
        assert read_secret("stored:key") == SECRET


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_a_rotation_that_is_killed_goes_on_in_the_next_run(settings: Any, programs: Programs) -> None:
    settings.SECRET_KEY = "old"
    names = [f"secret-{number}" for number in range(1200)]
    StoredSecret.objects.bulk_create(StoredSecret(name=name, sealed=seal(name)) for name in names)
    keys = {"SECRET_KEY": "present", "SECRET_KEY_FALLBACKS": "old", "BACKUPSCHED_VAR": str(programs.directory)}
    with transaction.atomic():  # there it waits until it is killed
        StoredSecret.objects.select_for_update().get(name="secret-800")
        first = programs.run("manage.py", "secrets", "rotate", **keys)
        eventually(a_lock_is_waited_for)
        first.kill()
        first.wait(PATIENCE)
        end_what_waits_for_a_lock()
    assert "500 of 1,200" in programs.log()
    settings.SECRET_KEY = "present"
    resealed = sum(map(is_sealed_by_present_key, StoredSecret.objects.values_list("sealed", flat=True)))
    assert resealed == 800
    assert programs.run("manage.py", "secrets", "rotate", **keys).wait(PATIENCE) == 0
    assert f"{1200 - resealed:,} sealed again, {resealed:,} were sealed" in programs.log(1)
    assert [read_secret(f"stored:{name}") for name in names] == names


@pytest.mark.django_db(transaction=True)
def test_a_secret_is_not_deleted_while_a_source_is_being_pointed_at_it() -> None:
    store("nas", SECRET)
    with transaction.atomic():
        Sources().edit(Source(), LAPTOP | {"secret": "stored:nas"})
        deleting = beside(lambda: StoredSecrets().remove(list(StoredSecret.objects.all())))
        eventually(a_lock_is_waited_for)
    with pytest.raises(InUse, match="nas is used by the source laptop"):
        deleting.result(PATIENCE)


@pytest.mark.django_db
def test_who_uses_a_secret_is_found_by_the_database_among_those_that_have_some() -> None:
    """And not by reading the secrets of all sources."""
    Source.objects.bulk_create(
        Source(name=f"source {number}", kind="local", path="/", secrets=secrets)
        for number, secrets in enumerate(({}, {"KEY": "stored:nas"}, {"KEY": "env:BACKUP_SECRET_A", "B": "stored:nas"}))
    )
    with CaptureQueriesContext(connection) as asked:
        assert users_of([]) == {}
        assert not asked.captured_queries
        assert users_of(["nas", "other"]) == {"nas": {"source": ["source 1", "source 2"]}, "other": {}}
    assert [
        each["sql"] for each in asked if '"sources_source"."secrets"' in each["sql"] and "?|" not in each["sql"]
    ] == []
