"""Instants of a Monday for which plans are made, spans of time, and a window of nights."""

from datetime import timedelta

from tests.sources.factories import MONDAY

SECOND, MINUTE, HOUR, DAY = (timedelta(**{unit: 1}) for unit in ("seconds", "minutes", "hours", "days"))
NINE = MONDAY + 9 * HOUR
NIGHTS = [{"days": "mon-sun", "start": "22:00", "end": "06:00"}]
