"""The worker: a process that claims records, runs their handlers, and settles what came of it.

process.py    the main loop: settle, tick, claim; start and shutdown
runner.py     runs handlers: sync ones in threads, async ones on one event loop
heartbeat.py  renews all leases, on a connection of its own
guard.py      stops what could not be renewed in time; touches no database
listener.py   sleeps on LISTEN and rings the bell
bell.py       what wakes the main loop
lookahead.py  how much a feeding queue may claim
"""
