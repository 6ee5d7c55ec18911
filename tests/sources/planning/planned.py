"""Instants of a Monday for which plans are made, and a window of nights."""

from datetime import timedelta

from tests.sources.factories import MONDAY

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
NINE = MONDAY + 9 * HOUR
NIGHTS = [{"days": "mon-sun", "start": "22:00", "end": "06:00"}]
