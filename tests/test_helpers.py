"""Parts of several test modules are in a helper module: a test module can be moved, split or removed by itself."""

import ast
import re
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from tests import order
from tests.copied_database import drop
from tests.jobs.worker_processes import database_url

TESTS = Path(__file__).parent


def imported_by(file: Path) -> set[str]:
    """The modules that `file` imports, and each name that could be one."""
    found: set[str] = set()
    for each in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(each, ast.ImportFrom):
            found |= {f"{each.module}", *(f"{each.module}.{name.name}" for name in each.names)}
        elif isinstance(each, ast.Import):
            found |= {name.name for name in each.names}
    return found


def test_no_test_module_imports_from_another_one() -> None:
    modules = {file: ".".join(file.relative_to(TESTS.parent).with_suffix("").parts) for file in TESTS.rglob("*.py")}
    of_tests = {name for file, name in modules.items() if file.name.startswith("test_")}
    stems = {name.rpartition(".")[2] for name in of_tests}
    # what imports one names it: parsing all of them takes seconds
    naming = {file: name for file, name in modules.items() if stems & set(re.findall(r"\btest_\w+", file.read_text()))}
    assert {name: found for file, name in naming.items() if (found := of_tests & imported_by(file))} == {}


@pytest.mark.django_db(transaction=True)
def test_a_database_of_tests_is_dropped_also_while_a_process_of_some_test_is_connected() -> None:
    server, _, own = database_url().rpartition("/")
    name = f"{own.partition('?')[0]}_dropped"  # of this process of tests alone
    remove = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
    with psycopg.connect(f"{server}/postgres", autocommit=True) as owner:
        owner.execute(remove)  # what a run left that was ended
        try:
            owner.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
            with psycopg.connect(f"{server}/{name}") as left_over:
                drop(name, verbosity=0)
                with pytest.raises(psycopg.OperationalError):
                    left_over.execute("SELECT 1")
            assert not owner.execute("SELECT FROM pg_database WHERE datname = %s", [name]).fetchone()
        finally:
            owner.execute(remove)


def test_each_process_of_tests_begins_with_its_share_of_the_longest() -> None:
    dealt = order.dealt(list("abcdefghij"), list("cij"), processes=3)
    assert ["".join(dealt[:3]), "".join(dealt[3:6]), "".join(dealt[6:])] == ["cab", "ide", "jfgh"]
    assert order.dealt(list("abc"), list("abc"), processes=2) == list("acb")
