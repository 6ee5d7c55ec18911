"""`DATABASE_URL`: what is of no use is named without its password, and several hosts are one server that may write; and
how its connections begin.
"""

import traceback
from contextlib import closing

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import connection

from backupsched.database import databases


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("shop", "only PostgreSQL is supported"),
        ("postgresql://127.0.0.1:http/shop", "DATABASE_URL is malformed"),
        ("postgresql://db1:5432,db2:70000/shop", "70000 is not a port"),
        ("postgresql://anna:s%zzhunter2@db1,db2/shop", "percent-encoded token: …"),
        ("postgresql://db1,db2/shop?password=s%zzhunter2", "percent-encoded token: …"),
        ("postgresql://anna:hunter2℀@db1/shop", "DATABASE_URL is malformed"),
    ],
)
def test_a_database_url_that_is_of_no_use_is_refused(tmp_path, url, problem):
    with pytest.raises(ImproperlyConfigured, match=problem) as refused:
        databases(url, tmp_path)
    assert "hunter2" not in "".join(traceback.format_exception(refused.value))


def test_several_hosts_are_handed_to_the_client_library_which_takes_the_one_that_may_write(tmp_path):
    for hosts, host, port in (
        ("anna:a%40b@db1:5433,db2", "db1,db2", "5433,5432"),
        ("[::1]:1,%2Frun%2Fb", "::1,/run/b", "1,5432"),
    ):
        found = databases(f"postgresql://{hosts}/shop", tmp_path)["default"]
        assert (found["HOST"], found["PORT"], found["NAME"]) == (host, port, "shop")
        assert found["OPTIONS"]["target_session_attrs"] == "read-write"
    asked = databases("postgresql://db1,db2/shop?target_session_attrs=any", tmp_path)["default"]["OPTIONS"]
    assert asked["target_session_attrs"] == "any"


@pytest.mark.django_db
@pytest.mark.parametrize("pooled", [False, True])
def test_no_statement_is_compiled_and_a_pooler_is_not_told_so(pooled):
    another = connection.copy()
    another.settings_dict["DISABLE_SERVER_SIDE_CURSORS"] = pooled
    with closing(another), another.cursor() as cursor:
        cursor.execute("SELECT setting = reset_val, setting FROM pg_settings WHERE name = 'jit'")
        is_as_before, setting = cursor.fetchone()
    assert is_as_before if pooled else setting == "off"
