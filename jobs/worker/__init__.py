"""The worker: a process that claims records, runs their handlers, and settles their outcomes.

process.py     the main loop: look, tick, claim; start and shutdown
hints.py       the times of the main loop's looks, and the queues that are worth a claim
claimer.py     the number of records to claim of each queue, also of one that feeds another
units.py       its runs, and the number of records that keep the places of each queue busy
handler_places.py     the places of handlers: threads for sync ones, tasks for async ones
event_loop.py  the loop of the async ones; ends a worker whose loop does not turn
settler.py     writes results, on a separate connection
heartbeat.py   renews all leases, on a separate connection; stops runs that hang or could not be renewed in time
listener.py    sleeps on LISTEN
outage.py      waits for a database that is down
database_threads.py   connections to the database, which async handlers share
"""
