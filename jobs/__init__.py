"""A backlog in PostgreSQL: records, claims with leases, settles, retries, throttles, breakers, and the worker.

It needs Django and psycopg, and knows no app that uses it. By itself, in any project with `INSTALLED_APPS = ["jobs"]`:

    registry.add(Kind("greeting"))  # in a module that is imported when Django starts

    @registry.handler("greeting", queue="default")
    def greet(run: Run) -> Outcome:
        return Succeeded()

    backlog.enqueue("greeting", [("world", {})])

`manage.py migrate` makes the tables, `manage.py worker` works, on any number of hosts. No other process is needed, but
the project calls `jobs.periodic.prune` now and then: it deletes what was finished long ago. `jobs/conf.py` has the
settings; each may be left out.
"""
