"""Shortens a failing list of choices: choices are left out as long as the same rule is broken."""

from collections.abc import Callable
from time import monotonic

from proving.chaos.protocol.play import SeedVerdict


def shrink(verdict: SeedVerdict, play: Callable[[int, list[str]], SeedVerdict], seconds: float) -> SeedVerdict:
    """The shortest verdict found within `seconds`: halves are left out first, then quarters, finally single choices."""
    best, until = verdict, monotonic() + seconds
    size = max(1, len(best.lines) // 2)
    while size:
        start, shrunk = 0, False
        while start < len(best.lines) and monotonic() < until:
            tried = play(best.seed, best.lines[:start] + best.lines[start + size :])
            if tried.rule == verdict.rule and len(tried.lines) < len(best.lines):
                best, shrunk = tried, True
            else:
                start += size
        if monotonic() >= until:
            break
        size = size if shrunk and size == 1 else size // 2
    return best
