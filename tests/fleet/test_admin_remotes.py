"""Remotes in forms: a type of rclone's list, then the inputs of that type; passwords that are typed are sealed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django import forms
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.admin import remote_form
from sealing import stored_secrets
from sealing.models import StoredSecret
from sources.models import Repository, Source
from storage.places import providers
from tests.engines.peers import PASSWORD, USER, serving
from tests.forms import Inputs
from tests.people import staff

pytestmark = [pytest.mark.django_db, pytest.mark.slow]
ADD = "/admin/sources/source/add/"
NO_POLICIES = {"assignments-TOTAL_FORMS": "0", "assignments-INITIAL_FORMS": "0"}


def test_a_type_is_chosen_then_its_settings_are_typed_and_its_secrets_named(
    admin_client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    types = admin_client.get(f"{ADD}?kind=rclone").content.decode()
    assert '<option value="smb">SMB / CIFS (smb)</option>' in types
    assert 'value="alias"' not in types
    page = admin_client.get(f"{ADD}?kind=rclone&type=smb").content.decode()
    for name in ("option_host", "option_user", "secret_pass", "path"):
        assert f'name="{name}"' in page
    assert page.index('name="option_idle_timeout"') > page.index('name="option_marker"')  # rclone calls it advanced
    typed = {
        "name": "nas",
        "kind": "rclone",
        "option_type": "smb",
        "option_host": "nas",
        "path": "family",
        **NO_POLICIES,
    }
    refused = admin_client.post(ADD, typed | {"secret_pass": "the password itself"})
    assert "never write the password itself" in refused.content.decode()
    answer = admin_client.post(ADD, typed | {"secret_pass": "env:BACKUP_SECRET_NAS"})
    assert answer.status_code == 302, answer.content.decode()
    source = Source.objects.get()
    assert (source.options, source.secrets) == ({"type": "smb", "host": "nas"}, {"pass": "env:BACKUP_SECRET_NAS"})

    change = f"/admin/sources/source/{source.pk}/change/"
    kept = {"type": "smb", "host": "nas", "idle_timeout": "5m", "hide_special_share": True, "port": 445}
    Source.objects.update(options=kept)
    answer = admin_client.post(change, Inputs(admin_client.get(change).content.decode()).found)
    assert (answer.status_code, Source.objects.get().options) == (302, kept)
    answer = admin_client.post(change, typed | {"secret_pass": "", "secret_pass_new": "hunter2 "})
    assert (answer.status_code, Source.objects.get().secrets) == (302, {"pass": "stored:source-nas-pass"})
    assert stored_secrets.read("source-nas-pass") == "hunter2 "
    other = admin_client.post(change, typed | {"option_type": "ftp", "option_host": "", "secret_pass": ""})
    assert 'name="option_explicit_tls"' in other.content.decode()
    assert Source.objects.get().options["type"] == "smb"


def drawn(kind: str) -> st.SearchStrategy[dict[str, Any]]:
    """Settings of a remote, as an API or a fleet file may have stored them."""
    names = [name for name, option in providers.providers()[kind].items() if not option.is_secret]
    text = st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=9)
    value = text | st.integers() | st.booleans() | text.map(" {} ".format) | st.just("")
    return st.dictionaries(st.sampled_from(names), value, max_size=5).map(lambda found: {"type": kind} | found)


@pytest.mark.parametrize("kind", ["s3", "sftp", "webdav", "drive"])
def test_a_remote_that_is_posted_unchanged_is_the_same(kind: str) -> None:
    @settings(max_examples=25)
    @given(drawn(kind))
    def holds(options: dict[str, Any]) -> None:
        class Form(forms.Form):
            def __init__(self, data: Any = None) -> None:
                super().__init__(data)
                inputs = remote_form.inputs_of(kind, options)
                self.fields = {remote_form.TYPE: remote_form.type_field("none"), **inputs.usual, **inputs.advanced}
                for field in self.fields.values():
                    field.required = False
                remote_form.show(self, options, {"pass": "stored:nas"}, kind)

        form = Form(Inputs(Form().as_p()).found)
        assert form.is_valid(), form.errors
        secrets = {"pass": "stored:nas"} if f"{remote_form.SECRET}pass" in form.fields else {}
        assert remote_form.sent(form.cleaned_data, options) == (options, secrets)

    holds()


MAY_EDIT = ("add_repository", "change_repository", "view_repository", "use_any_folder")


@pytest.mark.usefixtures("orders_run_here")
class TestRepository:
    ADD = "/admin/sources/repository/add/"

    @pytest.fixture
    def share(self, tmp_path: Path) -> Iterator[dict[str, str]]:
        """The typed values of a repository on a WebDAV server of this host, without its password."""
        with serving("webdav", tmp_path, f"--user={USER}", f"--pass={PASSWORD}") as (address, port):
            yield {
                "name": "Off site", "format": "rclone", "location": "backups", "option_type": "webdav",
                "option_url": f"http://{address}:{port}", "option_vendor": "rclone", "option_user": USER,
            }  # fmt: skip

    def test_its_type_is_chosen_its_place_tested_and_its_password_sealed(
        self, share: dict[str, str], admin_client: Any
    ) -> None:
        page = admin_client.post(self.ADD, {"name": "Off site", "option_type": "webdav", "_use_type": "1"})
        found = Inputs(page.content.decode()).found
        assert (found["name"], found["option_url"], page.context["errors"]) == ("Off site", "", [])

        wrong = admin_client.post(self.ADD, share | {"secret_pass_new": "wrong", "_test": "1"})
        [text] = [str(each) for each in wrong.context["messages"]]
        assert text.startswith("Not saved: ")
        assert Inputs(wrong.content.decode()).found["secret_pass_new"] == "wrong"  # nothing that was typed is lost
        right = admin_client.post(self.ADD, share | {"secret_pass_new": PASSWORD, "_test": "1"})
        [text] = [str(each) for each in right.context["messages"]]
        assert text.startswith("Not saved yet. Writing, reading and deleting work there")
        assert not Repository.objects.exists()
        assert not StoredSecret.objects.exists()

        answer = admin_client.post(self.ADD, share | {"secret_pass_new": PASSWORD})
        assert answer.status_code == 302, answer.context["errors"]
        row = Repository.objects.get()
        assert (row.secrets, row.remote["user"]) == ({"pass": "stored:repository-off-site-pass"}, USER)
        change = f"/admin/sources/repository/{row.pk}/change/"
        page = admin_client.get(change).content.decode()
        assert PASSWORD not in page
        before = (row.remote, row.secrets, row.identity)
        assert admin_client.post(change, Inputs(page).found).status_code == 302
        row.refresh_from_db()
        assert (row.remote, row.secrets, row.identity) == before

    def test_a_secret_is_set_by_those_who_may_and_once(self, share: dict[str, str], admin_client: Any) -> None:
        stored_secrets.store("repository-off-site-pass", "of another")
        refused = staff(*MAY_EDIT).post(self.ADD, share | {"secret_pass_new": PASSWORD})
        wrong = refused.context["adminform"].errors["secret_pass"]
        assert "your account may not set where passwords are found" in wrong[0]
        twice = admin_client.post(self.ADD, share | {"secret_pass": "stored:x", "secret_pass_new": PASSWORD})
        assert "is given twice" in twice.context["adminform"].errors["secret_pass"][0]
        answer = admin_client.post(self.ADD, share | {"secret_pass_new": PASSWORD})
        assert answer.status_code == 302, answer.context["errors"]
        row = Repository.objects.get()
        assert row.secrets == {"pass": "stored:repository-off-site-pass-2"}
        assert stored_secrets.read("repository-off-site-pass") == "of another"
