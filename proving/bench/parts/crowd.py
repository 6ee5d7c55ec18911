"""The time until idle units have met all present sources among very many that do not answer.

One idle worker finds them all on its backlog; the present ones come last in order. Each absent one is silent for the
minute that it is given. The clock starts at the first claim and stops when the last present source's backup begins.
"""

import time

from proving.bench.contestant import Connection, Contestant
from proving.bench.fleets import services
from proving.bench.fleets.deaf_host import deaf_host
from proving.bench.fleets.swept import ASKING, COPYING
from proving.bench.processes import call
from proving.bench.results import Key
from proving.bench.stage import Stage

NAME = "backups-ours"
PRESENT = 32
CONNECT_TIMEOUT = 60.0
FILE_BYTES = 1024
LONGEST_SECONDS = 300.0
TARGET = "target < 60"

BEGUN = f"""
SELECT count(DISTINCT b.id) FILTER (WHERE t.queue = '{COPYING}')::int,
       extract(epoch FROM max(t.started_at) FILTER (WHERE t.queue = '{COPYING}') - min(t.started_at))::float8
  FROM (SELECT record_id, queue, started_at FROM jobs_attempt
         UNION ALL
        SELECT id, queue, started_at FROM jobs_backlogrecord WHERE started_at IS NOT NULL) AS t
  JOIN jobs_backlogrecord b ON b.id = t.record_id
"""


def run(stage: Stage) -> None:
    crowd = stage.options.crowd
    for _ in stage.repeats("crowd"):
        for contestant in stage.cast([NAME]):
            with stage.trying(contestant):
                seconds = measure(stage, contestant, crowd)
                stage.say(f"crowd: {PRESENT} present sources behind {crowd} absent ones met after {seconds:.1f} s")
                stage.results.add(Key("crowd", f"{PRESENT} present behind {crowd} absent", NAME), seconds, "s", TARGET)


def measure(stage: Stage, contestant: Contestant, crowd: int) -> float:
    """The seconds from the first claim to the start of the last present source's backup.

    Raises: ContestantFailed, NotDeaf.
    """
    with services.temporary_home() as home, deaf_host(crowd - 1) as port:
        services.make_folders(home, FILE_BYTES)
        with stage.server.copy_of(stage.tables_of(contestant)) as database:
            url = stage.server.url(database)
            fleet = {"absent": crowd, "present": 0, "behind": PRESENT, "connect_timeout": CONNECT_TIMEOUT}
            call(contestant, "make_sweep", url=url, **fleet, port=port, directory=str(home), bandwidth="100M")
            stage.server.settle_down(database)
            stage.server.checkpoint()
            with (
                stage.server.connect(database) as connection,
                services.worker(contestant, url, home, f"{ASKING}:200,{COPYING}:16", connection) as process,
            ):
                services.wait_until(
                    lambda: _begun(connection)[0] >= PRESENT, "all present sources", process, LONGEST_SECONDS
                )
                return _begun(connection)[1]


def _begun(connection: Connection) -> tuple[int, float]:
    """The number of backups that have begun, and the seconds from the first claim to the latest."""
    count, seconds = connection.execute(BEGUN).fetchone() or (0, None)
    time.sleep(0.2)  # it reads all attempts
    return count, seconds or 0.0
