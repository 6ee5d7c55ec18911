"""Runs a command with a PostgreSQL of another version in `DATABASE_URL`: `python -m tests.on_postgresql 15 make test`.

The server lives as long as the command, whose exit code is this program's. Without that version: 0, or with
`EVERY_TEST_RUNS=1`, 1.
"""

import os
import subprocess
import sys
from urllib.parse import quote

import pytest

from tests.engines.postgresql_peer import ADMIN, PASSWORD, postgresql_server
from tests.programs import SERVERS, WHOLE_PATH


def main(version: str, *command: str) -> int:
    environment = dict(os.environ)
    os.environ.setdefault(WHOLE_PATH, os.pathsep.join((os.environ["PATH"], *SERVERS)))
    try:
        usual = ("max_connections=400", "autovacuum_naptime=2000000")  # conftest.py has the reason
        with postgresql_server(int(version), settings=usual) as server:
            url = f"postgresql://{ADMIN}:{quote(PASSWORD, safe='')}@{quote(str(server.folder), safe='')}/postgres"
            return subprocess.run(command, env=environment | {"DATABASE_URL": url}, check=False).returncode
    except pytest.skip.Exception as skipped:
        print(f"left out: {skipped}", file=sys.stderr)  # noqa: T201
        return 0
    except pytest.fail.Exception as failed:
        print(failed, file=sys.stderr)  # noqa: T201
        return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
