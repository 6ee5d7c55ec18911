"""Tables that grow with work or with the fleet: reading a whole one takes longer than anything should wait."""

LARGE = frozenset({
    "alerting_alert", "alerting_alertmessage", "audit_entry", "django_q_task", "jobs_attempt", "jobs_backlogrecord",
    "jobs_decision", "schedules_trigger", "sources_agenttoken", "sources_assignment", "sources_backup", "sources_copy",
    "sources_manifestdigest", "sources_pause", "sources_progress", "sources_restore", "sources_source",
    "operations_ratecount", "operations_attempttotal",
})  # fmt: skip
