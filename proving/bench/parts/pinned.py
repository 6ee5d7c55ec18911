"""The drain while another session holds a snapshot from before it.

No row that dies in the meantime can be removed: every claim steps over the dead entries of those before it. A backup by
pg_dump or a long report does this to a queue.
"""

from proving.bench.race import drain
from proving.bench.results import Key
from proving.bench.stage import Stage

ALL = ("ours-async", "raw-batched", "pgqueuer")
FREE, PINNED = "free", "pinned"


def run(stage: Stage) -> None:
    jobs = stage.options.jobs
    for _ in stage.repeats("pinned"):
        for case in (FREE, PINNED):
            for contestant in stage.cast(ALL):
                with stage.trying(contestant):
                    template = stage.template(contestant, jobs)
                    drained = drain(stage.server, contestant, template, jobs, 1, pinned=case == PINNED)
                    stage.say(f"drain, snapshot {case}: {contestant.name} {drained.rate:,.0f} jobs/s")
                    stage.results.add(Key("pinned", case, contestant.name), drained.rate, "jobs/s")
    for name in ALL:
        stage.results.compare(
            f"snapshot held: {name} with / without", Key("pinned", PINNED, name), Key("pinned", FREE, name)
        )
    over, under = Key("pinned", PINNED, "ours-async"), Key("pinned", PINNED, "pgqueuer")
    stage.results.compare("snapshot held: ours-async / pgqueuer", over, under)
