"""The page of a repository in the admin, with the state of its breaker; what an edit does to that: `tests/api`."""

from datetime import timedelta
from pathlib import Path

import pytest
from django.test import Client

from jobs.models import Breaker
from sources.availability import repository_breaker
from sources.models import Repository
from tests.sources.factories import MONDAY

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("orders_run_here")]


def test_its_page_tells_why_and_links_the_breaker(tmp_path: Path, admin_client: Client) -> None:
    vault = Repository.objects.create(name="vault", location=str(tmp_path / "vault"))
    url = f"/admin/sources/repository/{vault.pk}/change/"
    assert "closed" in admin_client.get(url).content.decode()
    guarded = repository_breaker.guarded_by(vault)
    breaker = Breaker.objects.create(
        key=guarded.key, title=guarded.title, opened_at=MONDAY, failures=3, last_error="it is full",
        probe_at=MONDAY + timedelta(minutes=1),
    )  # fmt: skip
    page = admin_client.get(url).content.decode()
    assert f'href="/admin/jobs/breaker/{breaker.pk}/change/"' in page
    assert "3 failures in a row, the last one: it is full; waiting for it: 0 records" in page
