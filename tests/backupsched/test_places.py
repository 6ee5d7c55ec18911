"""Where a checkout and an installed package keep what they write, and find what came with them."""

from pathlib import Path

import pytest
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from backupsched.places import checkout_of, usual_var_directory

CHECKOUT = Path("/srv/checkout")
ROOT, USER = 0, 1000


@pytest.mark.parametrize(
    ("environment", "user", "checkout", "expected"),
    [
        ({}, USER, CHECKOUT, "/srv/checkout/var"),
        ({}, ROOT, CHECKOUT, "/srv/checkout/var"),
        ({}, ROOT, None, "/var/lib/backupsched"),
        ({"XDG_STATE_HOME": "/state"}, ROOT, None, "/var/lib/backupsched"),
        ({"XDG_STATE_HOME": "/state"}, USER, None, "/state/backupsched"),
        ({"XDG_STATE_HOME": "state"}, USER, None, "/home/anna/.local/state/backupsched"),
        ({}, USER, None, "/home/anna/.local/state/backupsched"),
    ],
)
def test_what_is_written_lies_where_the_checkout_or_the_user_says(monkeypatch, environment, user, checkout, expected):
    monkeypatch.setenv("HOME", "/home/anna")
    assert usual_var_directory(environment, user, checkout) == Path(expected)


def test_a_user_without_a_home_is_asked_for_a_directory(monkeypatch):
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("os.getuid", lambda: 4_000_000_000)
    with pytest.raises(ImproperlyConfigured, match="name a directory in BACKUPSCHED_VAR"):
        usual_var_directory({}, USER, None)


def test_a_checkout_is_known_by_its_manage_py(tmp_path):
    assert checkout_of(tmp_path / "backupsched") is None
    (tmp_path / "manage.py").touch()
    assert checkout_of(tmp_path / "backupsched") == tmp_path
    assert settings.AGENT.is_file()
