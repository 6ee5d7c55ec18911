"""References to stored secrets (`stored_secrets.py`), and the tables that may hold them; separate, since that module
loads much.
"""

from collections.abc import Callable
from typing import NamedTuple

from django.db.models import Model

PREFIX = "stored:"

LONGEST_SECRET = 65_536
"""Bytes, or characters, of a secret: a private key has a few thousand."""

SECRET_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}"  # noqa: S105 - a pattern


class ReferringField(NamedTuple):
    """A field of rows with a name that may hold a reference, or an object of which each value may be one.

    `stays`: a secret that one of these rows refers to is not replaced, since it opens the data written with it.
    """

    model: type[Model]
    field: str
    stays: bool = False
    named_by: str = "name"


at_set: list[Callable[[str], object]] = []
"""Functions called with the name of a secret that was stored or replaced: apps above retry records that failed without
it.
"""

referring: list[ReferringField] = []
