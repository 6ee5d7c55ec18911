"""Schedules: the way from a trigger of the clock to a batch of records on the backlog.

declarations        the values of a schedule; editing: its edits; obstacles: the reasons against a deletion
cron                when a period begins; cron_doubts: expressions that may not mean what their author thinks
previews            the next batches of a schedule
capacity            the load of its triggers in the next days, and whether they can be done in time; capacity_report:
                    the same as text
watermarks          the due triggers, after a second or after three days
triggers            first step of an emission: due triggers are recorded
emitter             the step of the tick that does both steps of an emission; the second puts batches on the backlog
unemitted_triggers  the triggers of the second step: locked, advanced or skipped
chunks              a few thousand of their events at a time
providers           code of other apps that makes the batches of triggers, such as the assignments of a policy
events              the content of an event, and the configuration that a batch was begun with, until it is complete
templates           its payload
stagger             when it starts
batches             the progress of a batch, and late records
batch_ends          the end of a batch, and how a retry takes that back
verbs               trigger now, pause, resume, cancel
facts               schedules and triggers as JSON and as text
time_limits         limits of the time that a forecast may take
statements          the SQL of all these
"""
