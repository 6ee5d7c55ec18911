"""Measures the backlog next to its peers, on one PostgreSQL, in one run: `make bench`. The README here explains.

server.py      the embedded PostgreSQL, durable; databases cloned from templates
fleets/        policies and sources for the parts on backups; poison and outages for those in virtual time
virtual.py     a backlog in virtual time
contestants/   the participants, each with its tuning and the reason for it
child.py       the entry point of a contestant's separate process
processes.py   starts and ends these processes
gate.py        the starting line
tally.py       counts the handlers called
race.py        one drain, against the clock
stage.py       the server, options, databases and results that the parts share
parts/         the measurements
results.py     values and ratios; report.py: tables and JSON; machine.py: versions and settings
"""
