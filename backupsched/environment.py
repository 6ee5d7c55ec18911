"""Numbers from the environment: what is none is told in a sentence, before anything starts."""

import math
import os


def number(name: str, default: float) -> float:
    """The variable `name` as a number. Raises: SystemExit naming variable and value."""
    written = os.environ.get(name, "")
    if not written.strip():
        return float(default)
    try:
        found = float(written)
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise SystemExit(f"{name} must be a number, as {default:g}, not {written!r:.50}: correct it, or leave it out")
    return found


def whole(name: str, default: int) -> int:
    """The same, for a whole number."""
    found = number(name, default)
    if found != int(found):
        raise SystemExit(f"{name} must be a whole number, as {default}, not {found:g}: correct it, or leave it out")
    return int(found)
