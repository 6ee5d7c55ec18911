"""Log lines as JSON objects, for log collectors."""

import logging

from pythonjsonlogger.json import JsonFormatter

from declarations.surfaces.printable import printable

FIELDS = {"levelname": "level", "name": "logger", "exc_info": "exception"}


class JsonLines(JsonFormatter):
    """One object a line: `timestamp` in UTC, `level`, `logger`, `message`, `exception`, and the line's extra values.

    Characters that could steer a terminal are escaped, as in other logs.
    """

    def __init__(self) -> None:
        super().__init__("%(levelname)s %(name)s %(message)s", rename_fields=FIELDS, timestamp=True)

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))
