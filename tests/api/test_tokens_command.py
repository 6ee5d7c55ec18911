"""`manage.py api_tokens`."""

import json

import pytest

from api import tokens
from api.models import ApiToken
from tests.api.asking import make_user
from tests.commands import command

pytestmark = pytest.mark.django_db


run, refused = command("api_tokens")


def issue(*more: str) -> str:
    return run("issue", "--user", make_user().username, "--name", "grafana", "--scope", "read,operate", *more).strip()


class TestIssuing:
    def test_the_token_alone_is_on_the_output_so_that_it_can_be_piped(self) -> None:
        text = issue()
        assert "\n" not in text
        found = tokens.authenticate(text)
        assert found is not None
        assert (found.name, found.scopes, found.expires_at) == ("grafana", ["read", "operate"], None)

    @pytest.mark.parametrize(
        ("after", "seconds"),
        [
            ("12h", 43_200),
        ],
    )
    def test_it_expires_when_it_should(self, after: str, seconds: int) -> None:
        issue("--expires", after)
        token = ApiToken.objects.get()
        assert token.expires_at is not None
        assert abs((token.expires_at - token.created_at).total_seconds() - seconds) < 5

    def test_as_json(self) -> None:
        found = json.loads(issue("--json"))
        assert (found["state"], found["scopes"]) == ("valid", ["read", "operate"])
        assert found["token"].startswith("bst_")

    @pytest.mark.parametrize(
        "change",
        [{"--user": "stranger"}, {"--name": ""}, {"--user": ""}],
    )
    def test_bad_input_is_refused(self, change: dict[str, str]) -> None:
        options = {"--user": make_user().username, "--name": "a", "--scope": "read"} | change
        refused("issue", *(part for pair in options.items() for part in pair))
        assert not ApiToken.objects.exists()

    def test_one_for_a_user_who_could_not_use_it_is_refused(self) -> None:
        for fields in ({"is_staff": False}, {"is_active": False}):
            options = ("--user", make_user(**fields).username, "--name", "a", "--scope", "read")
            assert "no active member of staff" in refused("issue", *options)


class TestListingAndRevoking:
    def test_the_list_tells_all_but_the_tokens(self) -> None:
        assert run().startswith("There are no tokens.")
        text = issue()
        shown = run()
        assert "grafana" in shown
        assert "valid" in shown
        assert text not in shown + run("list", "--json")

    def test_a_revoked_one_is_not_accepted_any_more(self) -> None:
        text, token = issue(), ApiToken.objects.get()
        assert "not accepted any more" in run("revoke", str(token.pk))
        assert tokens.authenticate(text) is None
        refused("revoke", str(token.pk), code=1)
        assert json.loads(run("--json"))[0]["state"] == "revoked"

    def test_what_is_no_token_is_refused(self) -> None:
        refused("revoke", "--", "٣")
        refused("revoke")
