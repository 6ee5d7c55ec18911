"""Absent sources are asked while present ones are backed up by real engines: how long does it take, and how
much time of the units?

One worker asks 200 sources at once and has 16 execution units. An absent source is silent for the two seconds that it
is given. The clock starts at the first claim and stops when the last absent source has been asked once. The units are
busy with copies by rclone that take two seconds, since their bandwidth is limited, and almost no processor time.
"""

from jobs.states import Status
from proving.bench.contestant import Connection, Contestant
from proving.bench.fleets import services
from proving.bench.fleets.deaf_host import deaf_host
from proving.bench.fleets.spans import seconds_of_one_pass
from proving.bench.fleets.swept import ASKING, COPYING, SweepAttempt, SweepVerdict, swept
from proving.bench.processes import call
from proving.bench.results import Key
from proving.bench.stage import Stage

NAME, ONE_PASS = "backups-ours", "one pass"
AT_ONCE, UNITS = 200, 16
CONNECT_TIMEOUT = 2.0
FILE_BYTES, BANDWIDTH = 512 * 1024, "256K"
ABSENT_PER_PRESENT = 8
"""More present ones would make it longer, since a source is asked only if there is a unit for it. Fewer would leave
units free."""
BEHIND = 64
"""Present ones that come after all absent ones, so that units have work to the end."""
LONGEST_SECONDS = 120.0
TARGET = "≤ 3"

OF_SOURCE = """
  JOIN jobs_backlogrecord b ON b.id = t.record_id
  JOIN sources_assignment a ON b.subject = 'assignment:' || a.id
  JOIN sources_source s ON s.id = a.source_id
"""
ASKED = (
    f"SELECT count(DISTINCT t.record_id) FROM jobs_attempt t {OF_SOURCE} WHERE s.kind = 'sftp' AND t.queue = '{ASKING}'"
)
TRIED = f"""
WITH t AS (
    SELECT record_id, queue, started_at, ended_at, outcome FROM jobs_attempt
     UNION ALL
    SELECT id, queue, started_at, clock_timestamp(), NULL FROM jobs_backlogrecord WHERE status = {Status.RUNNING}
)
SELECT s.kind = 'sftp', t.queue, extract(epoch FROM t.started_at)::float8, extract(epoch FROM t.ended_at)::float8,
       t.outcome
  FROM t {OF_SOURCE}
"""


def run(stage: Stage) -> None:
    absent = stage.options.absent
    one_pass = seconds_of_one_pass(absent, AT_ONCE, CONNECT_TIMEOUT)
    case = f"{absent} absent sources"
    for _ in stage.repeats("sweep"):
        for contestant in stage.cast([NAME]):
            with stage.trying(contestant):
                found = measure(stage, contestant, absent)
                seconds = found.whole.seconds
                stage.say(
                    f"sweep: {seconds:.1f} s for {absent} absent sources, units busy {found.busy:.0%}, "
                    f"{found.wasted:g} unit-seconds on absent ones"
                )
                stage.results.add(Key("sweep", case, NAME), seconds, "s")
                stage.results.add(
                    Key("sweep", case, ONE_PASS), one_pass, "s", f"{AT_ONCE} at once, {CONNECT_TIMEOUT:g} s each"
                )
                stage.results.add(
                    Key("sweep", "units busy in the meantime", NAME), found.busy * 100, "%", f"{UNITS} units"
                )
                stage.results.add(Key("sweep", "units taken by absent ones", NAME), found.wasted, "s", "target 0")
                if found.wasted:
                    stage.results.failures.append(f"sweep: absent sources took {found.wasted:.2f} unit-seconds")
    stage.results.compare(
        f"sweep of {case}: ours / one pass", Key("sweep", case, NAME), Key("sweep", case, ONE_PASS), TARGET
    )


def measure(stage: Stage, contestant: Contestant, absent: int) -> SweepVerdict:
    """Sweep once. Raises: ContestantFailed, NotDeaf, NoSweep."""
    with services.temporary_home() as home, deaf_host(absent - 1) as port:
        services.make_folders(home, FILE_BYTES)
        fleet = {
            "absent": absent,
            "present": -(-absent // ABSENT_PER_PRESENT),
            "behind": BEHIND,
            "connect_timeout": CONNECT_TIMEOUT,
            "bandwidth": BANDWIDTH,
        }
        with stage.server.copy_of(stage.tables_of(contestant)) as database:
            url = stage.server.url(database)
            call(contestant, "make_sweep", url=url, **fleet, port=port, directory=str(home))
            stage.server.settle_down(database)
            stage.server.checkpoint()
            with (
                stage.server.connect(database) as connection,
                services.worker(contestant, url, home, f"{ASKING}:{AT_ONCE},{COPYING}:{UNITS}", connection) as process,
            ):
                services.wait_until(lambda: _asked(connection) >= absent, "the sweep", process, LONGEST_SECONDS)
                attempts = [SweepAttempt(*row) for row in connection.execute(TRIED).fetchall()]
    return swept(attempts, absent=absent, units=UNITS, timeout=CONNECT_TIMEOUT)


def _asked(connection: Connection) -> int:
    row = connection.execute(ASKED).fetchone()
    return int(row[0]) if row else 0
