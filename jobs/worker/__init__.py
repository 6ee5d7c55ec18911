"""The worker: a process that claims records, runs their handlers, and settles their outcomes.

process.py     the main loop: look, tick, claim; start and shutdown
hints.py       when the main loop looks, and which queues are worth a claim
claimer.py     how many records to claim of each queue, also of one that feeds another
units.py       the runs it holds, and how many records keep the places of each queue busy
handler_places.py     where handlers run: threads for sync ones, tasks for async ones
event_loop.py  the loop of the async ones; ends a worker whose loop does not turn
settler.py     writes results, on a connection of its own
heartbeat.py   renews all leases, on a connection of its own; stops what could not be renewed in time, and what hangs
listener.py    sleeps on LISTEN
outage.py      waits for a database that is away
database_threads.py   connections to the database, which async handlers share
"""
