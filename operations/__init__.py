"""What an operator looks at and does in the backlog.

admin       its pages; management: its commands
backlog     which records there are, their deliveries, reasons, dead letters, summaries, and how they are drawn
doctor      what is wrong with the installation; checks: with its settings
backoff     pictures of retry policies; capacity: of what schedules will put on the backlog
web         what holds for every page; limits: how often something may be tried
"""
