from collections.abc import Callable
from datetime import datetime
from typing import Any

IN_NEED: dict[str, Callable[[datetime], list[str]]] = {}
"""Queries of other apps for the summary, by the name of their subject: sentences about problems for the operator."""
HINTS: list[Callable[[datetime], list[str]]] = []
"""Facts that are not wrong but worth knowing in addition: sentences, each with advice."""
PROGRESS: list[Callable[[list[int]], dict[int, dict[str, Any]]]] = []
"""The progress of running records: ids → bytes_done, bytes_total, files_done, attempt and updated_at of each that is
known.
"""
CALLED: list[Callable[[str], list[str]]] = []
"""Queries of other apps for a search: the subjects of some backups whose names contain each word of a text."""
