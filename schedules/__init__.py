"""Schedules: from a trigger of the clock to a batch of records on the backlog.

declarations what a schedule may be; editing: how it is edited; obstacles: what prevents that
cron         when a period begins
capacity     what its triggers will put on the backlog in the next days, and whether that can be done in time
watermarks   which triggers are due, after a second or after three days
triggers     first step of an emission: due triggers are written down
emitter      both steps of an emission, as the tick's; the second puts their batches on the backlog
unemitted    the triggers of the second step, locked, brought further or skipped
chunks       a few thousand of their events at a time
providers    code of other apps that makes the batches of triggers, such as the assignments of a policy
events       what an event carries, and what a batch was begun with, until it is complete
templates    what its payload becomes
stagger      when it starts
batches      how far a batch is, what comes too late
finishing    when a batch has ended, and that a retry takes that back
verbs        trigger now, pause, resume, cancel
statements   the SQL of all that
"""
