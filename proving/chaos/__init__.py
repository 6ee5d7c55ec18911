"""A bounded storm over real workers and a real PostgreSQL, then an audit of every record and every attempt.

__main__.py    the command: `python -m proving.chaos --minutes 2`
run.py         the order of one storm
server.py      the storm's PostgreSQL, in a directory that is removed at the end
filler.py      puts records on the backlog and remembers each
kinds.py       the handlers of the records; worker.py is the process that runs them
journal.py     the runs, written by the workers to files outside of the database
fleet.py       starts, kills, stops and replaces workers
storm.py       the disturbances and their instants, drawn from a seed
sampler.py     reads the caps during the storm
facts.py       tables, journals and deeds as plain values; collect.py reads them
audit_tables.py, audit_runs.py   pure: facts in, discrepancies out
report.py      the printed report

storage/ is a storm over repositories and hosts/ has faults between many hosts, each with a separate command; protocol/
plays the lease protocol without processes.
"""
