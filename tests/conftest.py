"""One real PostgreSQL for the whole test session, also of the parallel one; stopped and removed at its end."""

import gc
import os
import re
import shutil
import signal
from collections.abc import Callable, Generator, Iterator
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from backupsched.embedded import Server
from external.network import contact
from external.processes import runner
from jobs import throttles
from jobs.handlers import Kind, registry
from tests import order, presets
from tests.copied_database import django_db_modify_db_settings
from tests.jobs.worker_processes import programs, workers
from tests.migrated_database import Preparation
from tests.orders_run_here import orders_run_here
from tests.pooler import pooled_url
from tests.programs import hide_programs, pytest_runtest_logreport, pytest_runtest_protocol, pytest_runtest_setup
from tests.sources.made_by_hand import made_by_hand

__all__ = [
    "django_db_modify_db_settings",
    "made_by_hand",
    "orders_run_here",
    "pooled_url",
    "programs",
    "pytest_runtest_logreport",
    "pytest_runtest_protocol",
    "pytest_runtest_setup",
    "workers",
]

FAST = {
    "fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "max_connections": "400",
    # of a table that it looks at between two tests it would note that it is empty: statements of later tests would be
    # planned for no rows, and take minutes for a hundred
    "autovacuum_naptime": "2000000",
}  # fmt: skip

# Hypothesis draws anew in every run, and tells how to draw the same again. Where a change is judged (CI is set), it
# draws always the same: what fails there is the change. A machine that stands still for a moment is no finding.
# Examples share their test's database: one that needs an empty table empties it. A tenth of the usual number, and a
# quarter in `make test-rest`: the same property is tried by each who runs the tests, with other examples.
settings.register_profile(
    "ours",
    max_examples=10,
    derandomize="CI" in os.environ,
    print_blob=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("ours")
settings.register_profile("longer", settings.get_profile("ours"), max_examples=25)


COLLECT_SELDOM = ("GOGC", "800")
"""For rclone, which spends a third of its start on collecting garbage, and is started a thousand times. What tests give
to it fits into the memory all the same. An engine in a process of its own, which may limit that, does not pass it on.
"""


def pytest_configure(config: pytest.Config) -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # started in the background, which processes of ours inherit
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if "hypothesis" in config.option.markexpr:
        settings.load_profile("longer")
    else:  # the first property of each process would parse all modules of ours, for the constants in them
        providers.is_local_module_file = lambda path: False
    for module in (order, presets):
        config.pluginmanager.register(module)
    os.environ.setdefault(*COLLECT_SELDOM)
    runner.PASSED_ON = (*runner.PASSED_ON, COLLECT_SELDOM[0])
    var_dir = Path(os.environ["BACKUPSCHED_TEST_VAR"])
    hide_programs(var_dir)
    if hasattr(config, "workerinput"):
        return
    config.add_cleanup(lambda: shutil.rmtree(var_dir, ignore_errors=True))
    if config.option.collectonly or os.environ.get("DATABASE_URL"):
        return
    preparation = Preparation(Server(var_dir, settings=FAST), var_dir, migrates=bool(config.getoption("tx", None)))
    preparation.start()
    config.add_cleanup(preparation.undo)


ALL_SLOW = {
    "test_openapi.py": "schemathesis",
    "test_accessibility.py": "playwright",
    "test_ten_questions.py": "playwright",
    "test_forms_seen.py": "playwright",
}
"""Files with slow tests only, and what they need that only `make test-rest` installs."""


ALL_OF_IT = re.compile(rb"^pytestmark = .*mark\.slow", re.MULTILINE)
"""The mark of a whole file as slow."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Files with nothing to run are not imported, by any of the processes."""
    wanted = config.option.markexpr
    if needed := ALL_SLOW.get(collection_path.name):
        return True if wanted.startswith("not slow") or not find_spec(needed) else None
    if not wanted.startswith(("slow", "not slow")) or collection_path.suffix != ".py":
        return None
    source = collection_path.read_bytes()
    if wanted.startswith("not slow"):
        return True if ALL_OF_IT.search(source) and b"mark.promise" not in source else None
    signs = (b"mark.slow", b"@given") if "hypothesis" in wanted else (b"mark.slow",)
    return None if any(sign in source for sign in signs) else True


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect garbage seldom: imports and collected tests stay for the whole run, and a collector that looks at them
    again and again finds nothing, at a tenth of the time. What tests leave takes it a twentieth of their time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
        gc.set_threshold(50_000, 20, 20)


@pytest.fixture(autouse=True, scope="session")
def _emptied_by_deleting() -> None:
    from django.test import TransactionTestCase

    TransactionTestCase._fixture_teardown = lambda _: presets.empty()


@pytest.fixture(autouse=True, scope="session")
def _one_context_a_page() -> None:
    """Django's client copies the context for each of the hundred templates that a page extends and includes, too."""
    from django.test import client

    keep = client.store_rendered_templates

    def keep_the_page(store: Any, signal: Any, sender: Any, template: Any, context: Any, **kwargs: Any) -> None:
        if context.template is template:
            keep(store, signal, sender, template, context, **kwargs)

    client.store_rendered_templates = keep_the_page


@pytest.fixture(autouse=True, scope="session")
def _pages_take_their_time() -> None:
    """A statement of a page is given up after 10 s, which a machine that runs all tests at once may need for it. What
    tests that limit sets its own."""
    from api import pages
    from declarations.surfaces.patience import FORM_SECONDS
    from declarations.surfaces.web import error_pages

    error_pages.PAGE_SECONDS = pages.PAGE_SECONDS = int(FORM_SECONDS)


@pytest.fixture(autouse=True)
def _no_round_beside(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The round of a minute, which `run_minutely` and each worker's tick start in a thread, has a connection of its
    own. Next to a test that is rolled back it would commit its alerts, and the next tests would find them."""
    if presets.is_rolled_back(request.node):
        monkeypatch.setattr("alerting.sending.start_thread", lambda work: None)


@pytest.fixture(autouse=True)
def _nothing_learnt() -> None:
    """Forget what one test's claims learnt of rates and lanes, and whom it asked last: `async_to_sync` leaves a test
    what a coroutine has set in its context."""
    throttles._named.clear()
    throttles._rated.clear()
    contact.is_arrival.set(False)


@pytest.fixture
def slow_database(monkeypatch: pytest.MonkeyPatch, db: None) -> Iterator[Callable[[ModuleType], None]]:
    """Each statement of Django's takes an hour of the clock of the module that is given."""
    from django.db import connection

    hours = [0.0]

    def execute(then: Callable[..., Any], *statement: Any) -> Any:
        hours[0] += 3600
        return then(*statement)

    with connection.execute_wrapper(execute):
        clock = SimpleNamespace(monotonic=lambda: hours[0])
        yield lambda module: monkeypatch.setattr(module, "time", clock)


@pytest.fixture
def kind_of_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kind of `make_record` is known, and has no windows."""
    monkeypatch.setitem(registry.kinds, "test", Kind("test"))
