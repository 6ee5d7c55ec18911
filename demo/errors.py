class DemoError(Exception):
    """The demo cannot go on. The message says what, where, and what to do."""
