"""Batches of events: how fast a trigger's batch is emitted next to a COPY of the same rows, how even its starts are,
and how long after its launch instant an event's delivery begins if a worker is idle.
"""

import time

from proving.bench.contestant import Connection, Contestant
from proving.bench.fleets.services import temporary_home, wait_until
from proving.bench.processes import call, running
from proving.bench.results import Key, percentile
from proving.bench.stage import Stage

OURS, COPY = "events-ours", "events-copy"
TARGET = "≥ 0.25"
FLATNESS = (100, 1_000, 10_000)
MINUTES = 60
FEW = 10.0
"""The mean of a minute below which two more may start in one; from there on a fifth more."""

STAGGERED, WINDOW_FOR, PLAIN = 200, 45, 50
LAST_SECONDS = 20.0
LAG_TARGET = "target < 1,000"

# The launch instant is read from the payload, since a settle moves the row's `run_after`.
LAGS = """
SELECT launch_at = b.trigger_at, (a.facts->>'began')::float8 - extract(epoch FROM launch_at)::float8
  FROM jobs_attempt a
  JOIN jobs_backlogrecord b ON b.id = a.record_id
 CROSS JOIN LATERAL (SELECT (b.payload->'body'->>'at')::timestamptz AS launch_at) AS planned
 WHERE b.trigger_at = to_timestamp(%s)
"""


def run(stage: Stage) -> None:
    events = stage.options.events
    case = f"{events:,} events"
    for _ in stage.repeats("events"):
        for contestant in stage.cast([OURS, COPY]):
            with stage.trying(contestant):
                measure_emission(stage, contestant, case)
        for contestant in stage.cast([OURS]):
            with stage.trying(contestant):
                measure_lag(stage, contestant)
    stage.results.compare(
        f"emission of {case}: ours / COPY", Key("events", case, OURS), Key("events", case, COPY), TARGET
    )
    for contestant in stage.cast([OURS]):
        with stage.trying(contestant):
            measure_flatness(stage, contestant)
    stage.drop_templates()


def measure_emission(stage: Stage, contestant: Contestant, case: str) -> None:
    template = stage.template_by(contestant, "make_batch", events=stage.options.events, stagger="even")
    with stage.server.copy_of(template) as database:
        stage.server.checkpoint()
        records, seconds, mebibytes = call(contestant, "time_batch", url=stage.server.url(database))
    stage.say(f"events: {contestant.name} {records / seconds:,.0f} records/s, {mebibytes:.0f} MiB")
    stage.results.add(Key("events", case, contestant.name), records / seconds, "records/s")
    if contestant.name == OURS:
        stage.results.add(Key("events", "growth of the process", contestant.name), mebibytes, "MiB", f"for {case}")


def measure_flatness(stage: Stage, contestant: Contestant) -> None:
    """Measure the fullest minute of an hour. It is the same each time, so once."""
    for events in FLATNESS:
        for stagger in ("even", "none"):
            with stage.server.copy_of(stage.tables_of(contestant)) as database:
                url = stage.server.url(database)
                call(contestant, "make_batch", url=url, events=events, stagger=stagger)
                fullest = fullest_minute(call(contestant, "starts", url=url))
            mean = events / MINUTES
            note = f"target ≤ {most_a_minute(mean):.1f}, the mean is {mean:.1f}" if stagger == "even" else "all in one"
            case = f"fullest minute, {events:,} events over {MINUTES} min, stagger {stagger}"
            stage.say(f"events: {case}: {fullest}")
            stage.results.add(Key("events", case, contestant.name), fullest, "events", note)


def fullest_minute(starts: list[float]) -> int:
    """The largest number of these instants, in seconds, that fall in the same minute."""
    minutes = [int(start // 60) for start in starts]
    return max(minutes.count(minute) for minute in set(minutes))


def most_a_minute(mean: float) -> float:
    """The number of events that an evenly staggered batch may start in one minute."""
    return mean + 2 if mean < FEW else 1.2 * mean


def measure_lag(stage: Stage, contestant: Contestant) -> None:
    """Measure from the launch instant to the first line of the handler, in a worker that has nothing else to do."""
    with temporary_home() as home, stage.server.copy_of(stage.tables_of(contestant)) as database:
        url = stage.server.url(database)
        wait_for_room_in_the_minute()
        ready = home / "ready"
        with (
            stage.server.connect(database) as connection,
            running(contestant, "launch", url=url, ready=str(ready)) as process,
        ):
            wait_until(ready.exists, "the worker", process)
            sizes = {"staggered": STAGGERED, "window_for": WINDOW_FOR, "plain": PLAIN}
            trigger_at = call(contestant, "make_launches", url=url, **sizes)
            longest = trigger_at - time.time() + WINDOW_FOR + LAST_SECONDS
            wait_until(lambda: len(_lags(connection, trigger_at)) >= STAGGERED + PLAIN, "the events", process, longest)
            lags = _lags(connection, trigger_at)
    for what, of_trigger in (("launch of a staggered event", False), ("trigger", True)):
        times = [lag for at_trigger, lag in lags if at_trigger == of_trigger]
        half, most = (percentile(times, share) * 1000 for share in (0.5, 0.99))
        stage.say(f"events: {what} to delivery: p50 {half:.0f} ms, p99 {most:.0f} ms of {len(times)}")
        stage.results.add(Key("events", f"{what} to its delivery, p50", contestant.name), half, "ms", LAG_TARGET)
        stage.results.add(Key("events", f"{what} to its delivery, p99", contestant.name), most, "ms", LAG_TARGET)


def wait_for_room_in_the_minute() -> None:
    """Wait for the next minute if this one is too short to make everything before it ends."""
    if (second := time.time() % 60) > 45:
        time.sleep(60 - second)


def _lags(connection: Connection, trigger_at: float) -> list[tuple[bool, float]]:
    return [(bool(at_trigger), float(lag)) for at_trigger, lag in connection.execute(LAGS, [trigger_at]).fetchall()]
