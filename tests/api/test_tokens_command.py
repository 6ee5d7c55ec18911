"""The tokens of the API, by `secrets tokens`, `issue` and `revoke`."""

import json

import pytest

from api import tokens
from api.models import ApiToken
from tests.api.asking import make_user
from tests.commands import command

pytestmark = pytest.mark.django_db


run, refused = command("secrets")


def issue(*more: str) -> str:
    return run("issue", "--user", make_user().username, "--name", "grafana", "--scope", "read,operate", *more).strip()


class TestIssuing:
    def test_the_token_alone_is_on_the_output_so_that_it_can_be_piped(self) -> None:
        text = issue()
        assert "\n" not in text
        found = tokens.authenticate(text)
        assert found is not None
        assert (found.name, found.scopes, found.expires_at) == ("grafana", ["read", "operate"], None)

    def test_as_json_with_its_end(self) -> None:
        found = json.loads(issue("--json", "--expires", "12h"))
        assert (found["state"], found["scopes"]) == ("valid", ["read", "operate"])
        assert found["token"].startswith("bst_")
        token = ApiToken.objects.get()
        assert token.expires_at is not None
        assert abs((token.expires_at - token.created_at).total_seconds() - 43_200) < 5

    def test_bad_input_is_refused(self) -> None:
        options = {"--user": make_user().username, "--name": "a", "--scope": "read"}
        guest, former = make_user(is_staff=False).username, make_user(is_active=False).username
        for change, why in (
            ({"--user": "stranger"}, "there is no user"), ({"--name": ""}, "--name"), ({"--user": ""}, "--user"),
            ({"--user": guest}, "not an active member of staff"), ({"--user": former}, "not an active member of staff"),
        ):  # fmt: skip
            assert why in refused("issue", *(part for pair in (options | change).items() for part in pair))
        assert not ApiToken.objects.exists()


class TestListingAndRevoking:
    def test_the_list_tells_all_but_the_tokens(self) -> None:
        assert run("tokens").startswith("There are no tokens.")
        text = issue()
        shown = run("tokens")
        assert "grafana" in shown
        assert "valid" in shown
        assert text not in shown + run("tokens", "--json")

    def test_a_revoked_one_is_not_accepted_any_more(self) -> None:
        text, token = issue(), ApiToken.objects.get()
        assert "not accepted any more" in run("revoke", str(token.pk))
        assert tokens.authenticate(text) is None
        refused("revoke", str(token.pk), code=1)
        assert json.loads(run("tokens", "--json"))[0]["state"] == "revoked"

    def test_what_is_no_token_is_refused(self) -> None:
        refused("revoke", "--", "٣", code=None)
        refused("revoke", code=None)
