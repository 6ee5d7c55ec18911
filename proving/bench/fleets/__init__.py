"""Fleets of backup sources for the parts that measure backups, and the measurements on them.

rows.py        many rows from one pattern
making.py      policies, sources and their assignments
emission.py    a period's start, and a COPY of the same rows
decisions.py   the questions and claims of a worker whose units get free
sweep.py       sources that answer among sources that do not
arrivals.py    silent sources whose agents check in
poison.py      records that can never succeed among good ones, in virtual time
outage.py      jobs whose service is down, in virtual time
statements.py  counts the statements that are sent to the database
deaf_host.py   a host that answers no caller, at every loopback address (in the parent)
services.py    the project's worker and web server (in the parent)
spans.py       spans of time from the recorded attempts (in the parent)
"""
