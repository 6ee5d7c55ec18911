"""A backlog in PostgreSQL: records, claims with leases, settles, retries, throttles, breakers, and the worker.

It needs Django and psycopg, and knows no app that uses it. By itself, in any project with `INSTALLED_APPS = ["jobs"]`
(and with Django 6.0 also `SILENCED_SYSTEM_CHECKS = ["postgres.E005"]`, which asks for an app that nothing here uses):

    registry.add(Kind("greeting"))  # in a module that is imported when Django starts

    @registry.handler("greeting", queue="default")
    def greet(run: Run) -> Outcome:
        return Succeeded()

    backlog.enqueue("greeting", [("world", {})])

The life of a record, module by module (docs/lifecycle.md has its states):

backlog/         put on the backlog, cancelled, retried; queues paused
tick, promotion  ready when its time has come; `window_ends`: postponed when its window closes
claiming         claimed with a lease, in the order of `order`; `throttles` cap claims
worker/          run by its handler (`handlers`), which returns an outcome (`outcomes`)
settling         written, fenced by its lease; next state: `transitions`, `retries/`, `exclusivity`, `breakers/`
rescuing         taken over when its worker was lost
decisions        explained afterwards
periodic         done every minute; at last pruned, its history too

`manage.py migrate` makes the tables, `manage.py worker` works, on any number of hosts. No other process is needed, but
the project calls `jobs.periodic.prune` now and then, which deletes records that were finished long ago. `jobs/conf.py`
has the settings, all of them optional.
"""
