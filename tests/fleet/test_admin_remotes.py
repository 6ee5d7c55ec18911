"""The form of a source of the kind rclone: a type of rclone's list, then the inputs of that type."""

from typing import Any

import pytest

from sources.models import Source

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
    assert 'name="option_idle_timeout"' not in page  # rclone calls it advanced
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

    Source.objects.update(options=source.options | {"idle_timeout": "5m"})
    change = f"/admin/sources/source/{source.pk}/change/"
    assert 'name="option_idle_timeout"' in admin_client.get(change).content.decode()
    other = admin_client.post(change, typed | {"option_type": "ftp", "option_host": "", "secret_pass": ""})
    assert 'name="option_explicit_tls"' in other.content.decode()
    assert Source.objects.get().options["type"] == "smb"
