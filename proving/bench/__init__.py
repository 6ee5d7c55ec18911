"""Measures the backlog beside its peers, on one PostgreSQL, in one run: `make bench`. The README here explains.

server.py      the embedded PostgreSQL, durable; databases cloned from templates
fleets/        policies and sources for the parts on backups; poison and outages for those in virtual time
virtual.py     a backlog in virtual time
contestants/   who takes part, each with its tuning and the reason
child.py       what a contestant does in a process of its own
processes.py   starts and ends those
gate.py        the starting line
tally.py       counts the handlers called
race.py        one drain, against the clock
stage.py       what the parts share
parts/         what is measured
results.py     values and ratios; report.py: tables and JSON; machine.py: versions and settings
"""
