"""Small curves in a page, as SVG of the page itself: two dozen numbers need no picture of their own. Pure."""

from collections.abc import Sequence

WIDTH, HEIGHT, MARGIN = 320, 56, 4


def points_of(values: Sequence[float]) -> list[tuple[float, float]]:
    """Where the values lie in WIDTH × HEIGHT, from left to right; zero is at the bottom, so that twice is twice."""
    step = (WIDTH - 2 * MARGIN) / max(1, len(values) - 1)
    greatest = max(values, default=0) or 1
    room = HEIGHT - 2 * MARGIN
    return [
        (round(MARGIN + number * step, 1), round(HEIGHT - MARGIN - room * value / greatest, 1))
        for number, value in enumerate(values)
    ]
