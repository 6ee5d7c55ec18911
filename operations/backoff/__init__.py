"""Pictures of backoff: when the retries of many jobs that failed together come, and what that does to the load.

`series.py` works out the retries, `waits.py` the waits, `figures.py` counts, `charts.py` draws; `subjects.py` says what
is drawn. All of it is pure but for the views and the command.
"""
