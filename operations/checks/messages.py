"""How a check says what is wrong and what to do, and what several of them ask of a value."""

import math
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, TypeGuard

from django.core.checks import Error, Warning


def error(number: str, what: str, do: str) -> Error:
    """`number`: as E001. `what` is wrong; `do` this about it."""
    return Error(what, hint=do, id=f"jobs.{number}")


def warning(number: str, what: str, do: str) -> Warning:
    """As `error`; `number`: as W001."""
    return Warning(what, hint=do, id=f"jobs.{number}")


def meant(key: Any, known: Sequence[str]) -> str:
    """What to do about the unknown `key`: the known one that it is close to, or what there is."""
    close = get_close_matches(str(key).casefold(), [name.casefold() for name in known], n=1)
    likely = [name for name in known if name.casefold() in close]
    return f"did you mean {likely[0]!r}?" if likely else f"take it out; there are {', '.join(known)}"


def is_number(value: Any) -> TypeGuard[float]:
    """Whether it is a finite number; True and False are none."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
