"""The desk of the queue: pages, commands and findings of the backlog.

admin       its pages; management: its commands
backlog     the selection of records, their deliveries, reasons, dead letters, summaries, and their output as text
finding     findings, and the declaration of conditions; conditions: of the queue and the installation
checks      system checks of the settings
backoff     pictures of retry policies; capacity: pictures of the load that schedules will put on the backlog
web         code for every page; limits: the number of times that something may be tried
"""
