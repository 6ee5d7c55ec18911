"""Delivery: from an event on the backlog to whoever waits for it."""


def register() -> None:
    """Register the kinds that deliver events."""
