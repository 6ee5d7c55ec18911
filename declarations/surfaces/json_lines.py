"""Log lines as JSON objects, for what collects logs."""

import logging

from pythonjsonlogger.json import JsonFormatter

from declarations.surfaces.printable import printable

FIELDS = {"levelname": "level", "name": "logger", "exc_info": "exception"}


class JsonLines(JsonFormatter):
    """One object a line: `timestamp` in UTC, `level`, `logger`, `message`, `exception`, and what a line says besides.

    What must not steer a terminal is escaped, as in other logs.
    """

    def __init__(self) -> None:
        super().__init__("%(levelname)s %(name)s %(message)s", rename_fields=FIELDS, timestamp=True)

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))
