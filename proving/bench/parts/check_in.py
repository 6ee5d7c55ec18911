"""The time from the check-in of a source that was silent to the start of its backup in a free unit of an idle worker.

The clock starts before the agent's request is sent, over real HTTP to the project's web server, on a new connection; it
stops when an execution unit claims the record. In between the source is asked whether it is really there. All the while
the worker waits for the answers of other, silent sources: none, some, and more than it has places for.
"""

import http.client
import json
import time

from jobs.states import Status
from proving.bench.contestant import Connection, Contestant
from proving.bench.fleets import services
from proving.bench.fleets.deaf_host import deaf_host
from proving.bench.processes import ContestantFailed, call
from proving.bench.results import Key, percentile
from proving.bench.stage import Stage

NAME = "backups-ours"
PLACES = 200
QUEUES = f"availability:{PLACES},backups:16"
SPACING_SECONDS = 0.4
"""Seconds between two check-ins, so that the engines of the last ones do not take the processor from the next."""
WARM_UP = 3
"""The first requests and claims pay one-time costs."""
FILE_BYTES = 1024
LAST_SECONDS = 10.0
TIMEOUT_SECONDS = 10.0
TARGET = "target < 1,000"

BEGUN = f"""
SELECT a.id, extract(epoch FROM min(t.started_at))::float8
  FROM (SELECT record_id, queue, started_at FROM jobs_attempt
         UNION ALL
        SELECT id, queue, started_at FROM jobs_backlogrecord WHERE status = {Status.RUNNING}) AS t
  JOIN jobs_backlogrecord b ON b.id = t.record_id
  JOIN sources_assignment a ON b.subject = 'assignment:' || a.id
 WHERE t.queue = 'backups'
 GROUP BY a.id
"""


RUNNING = f"SELECT count(*) FROM jobs_backlogrecord WHERE status = {Status.RUNNING} AND queue = 'availability'"


def run(stage: Stage) -> None:
    most_hanging = stage.options.absent
    for _ in stage.repeats("check-in"):
        for hanging in (0, most_hanging * 2 // 7, most_hanging):
            for contestant in stage.cast([NAME]):
                with stage.trying(contestant):
                    latencies, answers = measure(stage, contestant, hanging)
                    beside = f" with {hanging} that hang" if hanging else ""
                    for what, times in (("to the start of the backup", latencies), ("to the answer", answers)):
                        half, most = (percentile(times, share) * 1000 for share in (0.5, 0.99))
                        stage.say(f"check-in{beside}, {what}: p50 {half:.0f} ms, p99 {most:.0f} ms of {len(times)}")
                        target = TARGET if times is latencies else ""
                        stage.results.add(Key("check-in", f"{what}{beside}, p50", NAME), half, "ms", target)
                        stage.results.add(Key("check-in", f"{what}{beside}, p99", NAME), most, "ms", target)


def measure(stage: Stage, contestant: Contestant, hanging: int) -> tuple[list[float], list[float]]:
    """The seconds to the start of the backup and to the answer, for all check-ins except the first, with `hanging`
    sources that were asked before and are silent.

    Raises: ContestantFailed, NotDeaf.
    """
    count = stage.options.arrivals + WARM_UP
    with (
        services.temporary_home() as home,
        deaf_host(hanging) as deaf_port,
        stage.server.copy_of(stage.tables_of(contestant)) as database,
    ):
        services.make_folders(home, FILE_BYTES)
        url = stage.server.url(database)
        fleet = {"sources": count, "hanging": hanging, "port": deaf_port, "directory": str(home)}
        agents = call(contestant, "make_arrivals", url=url, **fleet)
        with (
            stage.server.connect(database) as connection,
            services.worker(contestant, url, home, QUEUES, connection) as worker,
            services.web(contestant, url, home) as port,
        ):
            stage.server.checkpoint()
            asked_before = min(hanging, PLACES)
            services.wait_until(lambda: _running(connection) >= asked_before, "all that hang to be asked", worker)
            sent, answered = {}, {}
            for assignment, token in agents:
                # the database dates the start of the backup, by the clock of the same machine
                sent[assignment] = time.time()
                check_in(port, token)
                answered[assignment] = time.time()
                time.sleep(SPACING_SECONDS)
            services.wait_until(lambda: len(_begun(connection)) >= count, "all backups to begin", worker, LAST_SECONDS)
            begun = _begun(connection)
    measured = [assignment for assignment, _ in agents[WARM_UP:]]
    return [begun[number] - sent[number] for number in measured], [answered[n] - sent[n] for n in measured]


def _running(connection: Connection) -> int:
    row = connection.execute(RUNNING).fetchone()
    return int(row[0]) if row else 0


def check_in(port: int, token: str) -> None:
    """Check in as an agent does. Raises: ContestantFailed unless it is accepted."""
    agent = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_SECONDS)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    try:
        agent.request("POST", "/api/check-in", json.dumps({"hostname": "laptop", "reason": "start"}), headers)
        answer = agent.getresponse()
        reported = answer.read()
    except OSError as error:
        raise ContestantFailed(f"check-in: no answer: {error}") from error
    finally:
        agent.close()
    if answer.status != http.client.OK:
        raise ContestantFailed(f"check-in: {answer.status} {reported[:300]!r}")


def _begun(connection: Connection) -> dict[int, float]:
    """Assignment id → the instant at which a unit first claimed its record, in seconds since the epoch."""
    return dict(connection.execute(BEGUN).fetchall())
