"""Faults between many hosts: workers, web, qcluster and an agent in network namespaces, with a primary, a streaming
replica and a PgBouncer: `python -m proving.chaos.hosts partition`. `docs/many-hosts.md` has the results.

__main__.py    the command
faults.py      the faults; stage.py is what they change
run.py         one fault from its beginning to its audit
lan.py         the hosts; switch.py is the network between them, which loses and delays
servers.py     primary, replica, PgBouncer
services.py    web, qcluster and agent, and when they work again; processes.py starts and ends them
fleet.py       a worker on each of three hosts
overlaps.py    pure: runs at the same time
"""
