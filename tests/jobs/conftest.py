"""Workers as processes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.jobs.worker_processes import WorkerProcesses


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[WorkerProcesses]:
    workers = WorkerProcesses(tmp_path)
    yield workers
    workers.end()
