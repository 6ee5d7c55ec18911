"""One real PostgreSQL for the whole test session, also of the parallel one; stopped and removed at its end."""

import os
import shutil
import signal
from pathlib import Path

import pytest

from backupsched.embedded import Server

FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "max_connections": "400"}


def pytest_configure(config: pytest.Config) -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # started in the background, which processes of ours inherit
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(config, "workerinput"):
        return
    var_dir = Path(os.environ["BACKUPSCHED_TEST_VAR"])
    config.add_cleanup(lambda: shutil.rmtree(var_dir, ignore_errors=True))
    if config.option.collectonly or os.environ.get("DATABASE_URL"):
        return
    server = Server(var_dir, settings=FAST)
    server.ensure_running()
    config.add_cleanup(server.destroy)
