"""Fleets of backup sources for the parts that measure backups, and what is measured on them.

rows.py        many rows from one pattern
making.py      policies, sources and their assignments
emission.py    a period's start, and a COPY of the same rows
decisions.py   what a worker asks and claims when units are free
sweep.py       sources that answer beside sources that do not
arrivals.py    silent sources whose agents check in
poison.py      records that are wrong for ever beside good ones, in virtual time
outage.py      jobs whose service is away, in virtual time
statements.py  counts what is sent to the database
deaf_host.py   answers no caller, at every loopback address (in the parent)
services.py    the project's own worker and web server (in the parent)
spans.py       what the recorded attempts say, computed (in the parent)
"""
