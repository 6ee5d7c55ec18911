"""The worker: a process that claims records, runs their handlers, and settles what came of it.

process.py       the main loop: look, tick, claim; start and shutdown
hints.py         when the main loop looks, and which queues are worth a claim
pace.py          how many records to claim at once
lookahead.py     how much a feeding queue may claim
units.py         the runs it holds, and the places of each queue
places.py        what both kinds of places share
unit_threads.py  places of sync handlers: threads
unit_tasks.py    places of async handlers: tasks of one event loop
settler.py       writes results, on a connection of its own
heartbeat.py     renews all leases, on a connection of its own
guard.py         stops what could not be renewed in time, and what hangs; touches no database
loop_watch.py    ends a worker whose event loop does not turn, in the thread of the guard
listener.py      sleeps on LISTEN
"""
