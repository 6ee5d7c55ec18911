"""A bounded storm over real workers and a real PostgreSQL, and an audit of every record and every attempt after it.

__main__.py    the command: `python -m proving.chaos --minutes 2`
run.py         what happens in which order
server.py      a PostgreSQL of its own, in a directory that is removed at the end
filler.py      puts records on the backlog and remembers each
kinds.py       what the records do; worker.py is the process that runs them
journal.py     what really ran, written by the workers beside the database
fleet.py       starts, kills, stops and replaces workers
storm.py       what goes wrong, and when: drawn from a seed
sampler.py     looks at the caps while it blows
facts.py       tables, journals and deeds as plain values; collect.py reads them
audit_tables.py, audit_runs.py   pure: facts in, discrepancies out
report.py      what is printed

storage/ is a storm over repositories and hosts/ has faults between many hosts, each by a command of its own; protocol/
plays the lease protocol without processes.
"""
