"""The worker: a process that claims records, runs their handlers, and settles what came of it.

process.py       the main loop: look, tick, claim; start and shutdown
hints.py         when the main loop looks, and which queues are worth a claim
claimer.py       how many records to claim of each queue, also of one that feeds another
units.py         the runs it holds, and the places of each queue
places.py        what both kinds of places share, and how many records to claim at once
unit_threads.py  places of sync handlers: threads
unit_tasks.py    places of async handlers: tasks of one event loop
settler.py       writes results, on a connection of its own
heartbeat.py     renews all leases, on a connection of its own
guard.py         stops what could not be renewed in time, and what hangs; ends a worker whose event loop does not turn
listener.py      sleeps on LISTEN
outage.py        waits for a database that is away
database_threads.py, sockets.py   what async handlers share: connections to the database, and sockets
"""
