"""The desk of the queue: pages, commands and findings of the backlog.

admin       its pages; management: its commands
backlog     which records there are, their deliveries, reasons, dead letters, summaries, and how they are drawn
finding     findings, and how a condition is declared; conditions: of the queue and the installation
checks      system checks of the settings
backoff     pictures of retry policies; capacity: of what schedules will put on the backlog
web         what holds for every page; limits: how often something may be tried
"""
