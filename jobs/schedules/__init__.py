"""Schedules: from a trigger of the clock to a batch of records on the backlog.

validation   what a schedule may be
"""
