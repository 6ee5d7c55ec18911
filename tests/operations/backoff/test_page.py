"""The page /backoff/: who sees it, what it draws, and what it says to bad parameters."""

import html
import io
import re
from typing import Any
from xml.etree import ElementTree

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.utils.html import escape
from PIL import Image

from jobs.retries import ALGORITHMS, Rule
from operations.backoff import views
from operations.backoff.study import study
from operations.limits import LimitOfOneProcess
from tests.factories import make_retry_policy

pytestmark = pytest.mark.django_db

PAGE = "/backoff/"


def pictures_of(page: str) -> list[tuple[str, str]]:
    """The address of each picture of a light page, and its text for users who do not see it."""
    found = re.findall(r'<img class="w-full dark:hidden"[^>]*src="([^"]*)"[^>]*alt="([^"]*)"', page)
    return [(html.unescape(src), html.unescape(alt)) for src, alt in found]


def shown(client: Client, **asked: Any) -> str:
    response = client.get(PAGE, asked)
    assert response.status_code == 200, response.context["asked"].errors
    return response.content.decode()


def wrong(client: Client, **asked: Any) -> dict[str, list[str]]:
    response = client.get(PAGE, asked)
    assert response.status_code == 400
    assert pictures_of(response.content.decode()) == []
    found: dict[str, list[str]] = response.context["asked"].errors
    return found


@pytest.fixture
def staff(client: Client) -> Client:
    """Logged in as one who may enter the admin, and nothing else."""
    client.force_login(User.objects.create_user("staff", is_staff=True))
    return client


def test_an_account_draws_so_many_pictures_a_minute_and_another_goes_on(
    staff: Client, admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "DRAWN", LimitOfOneProcess("two", 2, 86_400))
    asked = [staff.get(f"{PAGE}{path}") for path in ("picture.svg", "figures.json", "picture.png", "")]
    assert [answer.status_code for answer in asked] == [200, 200, 429, 429]
    assert int(asked[2]["Retry-After"]) > 0
    assert admin_client.get(f"{PAGE}figures.json").status_code == 200


def test_staff_see_algorithms_and_policies_if_they_may(staff: Client) -> None:
    policy = make_retry_policy(name="a secret one")
    assert "a secret one" not in shown(staff)
    assert "policy" in wrong(staff, policy=policy.pk)
    assert "compare" in wrong(staff, compare=f"policy:{policy.pk}")
    User.objects.get(username="staff").user_permissions.add(Permission.objects.get(codename="view_retrypolicy"))
    assert "a secret one" in shown(staff, policy=policy.pk)


def test_each_algorithm_has_its_picture_with_its_formula_and_source(admin_client: Client) -> None:
    page = shown(admin_client, algorithm="buckets")
    [(address, text)] = pictures_of(page)
    assert text.startswith("Backoff: buckets. ")
    assert ElementTree.fromstring(admin_client.get(address).content)[0].text == "Backoff: buckets"
    assert escape(ALGORITHMS["buckets"].formula) in page
    assert escape(ALGORITHMS["buckets"].source) in page


def test_a_policy_or_parameters_and_limits_are_drawn_also_side_by_side_with_a_table(admin_client: Client) -> None:
    policy = make_retry_policy(name="<script>often", algorithm="constant", parameters={"base": 5}, max_failures=3)
    page = shown(admin_client, policy=policy.pk, algorithm="fibonacci", unit=3)
    assert pictures_of(page)[0][1].startswith("Backoff: <script>often. ")
    assert "constant · base 5 s" in page
    asked = {"algorithm": "exponential", "least": "1.5", "unit": "2", "jitter": "full", "max_failures": "9"}
    page = shown(admin_client, **asked, max_delay="60")
    assert "least 1.5 s · unit 2 s · jitter full · no wait longer than 1 min" in page
    assert "It gives up at failure 9" in page
    page = shown(admin_client, algorithm="phased", compare="buckets", jobs=100)
    assert pictures_of(page)[0][1].startswith("Backoff: phased next to buckets. ")
    assert f"{study('', Rule('buckets'), jobs=100).wait_cv:.3f}" in page
    page = shown(admin_client, compare=f"policy:{policy.pk}")
    assert "Backoff: fibonacci next to &lt;script&gt;often" in page
    assert "<script>often" not in page


def test_the_files_are_svg_and_png_and_what_is_wrong_is_said_in_plain_text(admin_client: Client) -> None:
    asked = {"algorithm": "buckets", "compare": "phased", "jobs": "5", "retries": "2", "seed": "4"}
    answer = admin_client.get(f"{PAGE}picture.svg", asked)
    assert answer["Content-Type"] == "image/svg+xml"
    assert 'filename="backoff.svg"' in answer["Content-Disposition"]
    assert ElementTree.fromstring(answer.content)[0].text == "Backoff: buckets next to phased"
    answer = admin_client.get(f"{PAGE}picture.png", {"algorithm": "constant", "jobs": "1", "theme": "dark"})
    with Image.open(io.BytesIO(answer.content)) as image:
        assert image.convert("RGB").getpixel((1, 1)) == (17, 24, 39)
    answer = admin_client.get(f"{PAGE}picture.svg", {"jobs": "0"})
    assert (answer.status_code, answer.content[:6]) == (400, b"jobs: ")


@pytest.mark.parametrize(
    ("field", "value"),
    [("algorithm", "magic"), ("policy", "9" * 40), ("jobs", "1001"), ("unit", "inf"), ("give_up_after", "-5")],
)
def test_what_is_wrong_is_said_beside_its_field(field: str, value: str, admin_client: Client) -> None:
    answer = admin_client.get(PAGE, {field: value})
    assert (answer.status_code, list(answer.context["asked"].errors)) == (400, [field])
    [beside] = re.findall(rf'<div id="errors_{field}">(.*?)</ul>', answer.content.decode(), re.DOTALL)
    assert "<li>" in beside


def test_htmx_gets_the_pictures_alone_and_errors_cleared(admin_client: Client) -> None:
    page = admin_client.get(PAGE, {"jobs": "5"}, headers={"HX-Request": "true"}).content.decode()
    assert "<form" not in page
    assert len(pictures_of(page)) == 1
    [beside] = re.findall(r'<div id="errors_jobs" hx-swap-oob="true">(.*?)</div>', page, re.DOTALL)
    assert beside.strip() == ""


def test_durations_are_taken_as_everywhere(admin_client: Client) -> None:
    in_seconds = shown(admin_client, algorithm="fibonacci", unit="900", max_delay="7200")
    assert pictures_of(in_seconds)
    with_units = shown(admin_client, algorithm="fibonacci", unit="15m", max_delay="2h")
    assert [alt for _, alt in pictures_of(with_units)] == [alt for _, alt in pictures_of(in_seconds)]
    assert "is not a duration" in str(wrong(admin_client, algorithm="fibonacci", unit="soon"))
