"""The speed at which jobs are enqueued, by each contestant's bulk way; committed, so durable.

Ours: `jobs.backlog.enqueue`. Raw: COPY. django-q2 and django-tasks have no bulk way: one by one in one transaction.
"""

from proving.bench.processes import call
from proving.bench.results import Key
from proving.bench.stage import Stage

ALL = ("ours-async", "raw-batched", "pgqueuer", "procrastinate", "django-q2", "django-tasks")
CASE = "bulk"


def run(stage: Stage) -> None:
    for _ in stage.repeats("enqueue"):
        for contestant in stage.cast(ALL):
            jobs = stage.jobs_of(contestant)
            with stage.trying(contestant):
                with stage.server.copy_of(stage.template(contestant, 0)) as database:
                    stage.server.checkpoint()
                    seconds = call(contestant, "enqueue", url=stage.server.url(database), count=jobs)
                stage.say(f"enqueue: {contestant.name} {jobs / seconds:,.0f} jobs/s")
                note = f"of {jobs:,} jobs" if jobs < stage.options.jobs else ""
                stage.results.add(Key("enqueue", CASE, contestant.name), jobs / seconds, "jobs/s", note)
    for peer in ("pgqueuer", "raw-batched"):
        over, under = Key("enqueue", CASE, "ours-async"), Key("enqueue", CASE, peer)
        stage.results.compare(f"enqueue: ours / {peer}", over, under)
