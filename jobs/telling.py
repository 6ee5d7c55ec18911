"""How instants, durations and what programs said are told to people."""

from datetime import datetime


def moment(instant: datetime | None) -> str:
    """An instant to the second, in UTC, as people read it; empty for none."""
    return f"{instant:%Y-%m-%d %H:%M:%S}" if instant else ""


def span(seconds: float | None) -> str:
    """A duration in its two largest units, as `2 h 5 min`, or one, as `2 h`; empty for none."""
    if seconds is None:
        return ""
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = int(seconds)
    if whole < 3600:
        return _two(whole // 60, "min", whole % 60, "s")
    if whole < 86_400:
        return _two(whole // 3600, "h", whole % 3600 // 60, "min")
    return _two(whole // 86_400, "d", whole % 86_400 // 3600, "h")


def storable(text: str) -> str:
    """`text` as PostgreSQL can keep it: programs quote file names with NUL or half of a surrogate pair."""
    return text.encode("utf-8", "replace").decode().replace("\0", "�")


def _two(larger: int, unit: str, smaller: int, smaller_unit: str) -> str:
    return f"{larger} {unit} {smaller} {smaller_unit}" if smaller else f"{larger} {unit}"
