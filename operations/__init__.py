"""What an operator looks at and does in the backlog.

admin       its pages; management: its commands
backlog     summaries, reasons, dead letters, and how they are drawn
event_list  what was delivered, and when
doctor      what is wrong with the installation; checks: with its settings
backoff     pictures of retry policies; capacity: of what schedules will put on the backlog
web         what holds for every page; limits: how often something may be tried
"""
