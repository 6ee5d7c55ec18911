"""Repositories in the admin, with the state of their breakers."""

from datetime import timedelta
from pathlib import Path

import pytest
from django.test import Client

from jobs.models import Breaker
from sources.availability import repository_breaker
from sources.models import Repository
from tests.sources.factories import MONDAY

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("orders_run_here")]

LIST = "/admin/sources/repository/"


@pytest.fixture
def vault(tmp_path: Path) -> Repository:
    return Repository.objects.create(name="vault", location=str(tmp_path / "vault"))


def failing(repository: Repository) -> Breaker:
    guarded = repository_breaker.guarded_by(repository)
    return Breaker.objects.create(
        key=guarded.key, title=guarded.title, opened_at=MONDAY, failures=3, last_error="it is full",
        probe_at=MONDAY + timedelta(minutes=1),
    )  # fmt: skip


def test_its_page_tells_why_and_links_the_breaker(vault: Repository, admin_client: Client) -> None:
    url = f"{LIST}{vault.pk}/change/"
    assert "closed" in admin_client.get(url).content.decode()
    breaker = failing(vault)
    page = admin_client.get(url).content.decode()
    assert f'href="/admin/jobs/breaker/{breaker.pk}/change/"' in page
    assert "3 failures in a row, the last one: it is full; waiting for it: 0 records" in page


def save(client: Client, repository: Repository, **changed: str) -> str:
    fields = {"name": repository.name, "location": repository.location} | changed
    return client.post(f"{LIST}{repository.pk}/change/", fields, follow=True).content.decode()


def test_its_breaker_takes_over_a_new_name_and_tries_a_new_location_at_once(
    vault: Repository, admin_client: Client, tmp_path: Path
) -> None:
    before = failing(vault).probe_at
    save(admin_client, vault, name="cellar")
    breaker = Breaker.objects.get()
    assert (breaker.title, breaker.probe_at) == ("repository cellar", before)
    page = save(admin_client, vault, location=str(tmp_path / "elsewhere"))
    assert "one record is tried there now" in page
    assert Breaker.objects.get().probe_at != before
    assert (tmp_path / "elsewhere").is_dir()


@pytest.mark.parametrize("from_the_list", [True, False])
def test_its_breaker_goes_with_it(vault: Repository, admin_client: Client, from_the_list: bool) -> None:
    failing(vault)
    if from_the_list:
        fields = {"action": "delete_selected", "_selected_action": [vault.pk], "post": "yes"}
        admin_client.post(LIST, fields)
    else:
        admin_client.post(f"{LIST}{vault.pk}/delete/", {"post": "yes"})
    assert not Repository.objects.exists()
    assert not Breaker.objects.exists()
