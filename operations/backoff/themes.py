"""Colours of the pictures, light and dark. Pure.

Retries are coloured along *viridis*, which people with any kind of colour blindness can order, and which stays in order
in black and white; less the end that would be lost in the background.
"""

from collections.abc import Sequence
from dataclasses import dataclass

VIRIDIS = (
    "440154", "481567", "482677", "453781", "404788", "39568c", "33638d", "2d708e", "287d8e", "238a8d", "1f968b",
    "20a387", "29af7f", "3cbb75", "55c667", "73d055", "95d840", "b8de29", "dce319", "fde725",
)  # fmt: skip
"""By Stéfan van der Walt and Nathaniel Smith (CC0): twenty steps of it."""

STEPS = 24
"""More colours than that cannot be told apart; retries then share them."""


@dataclass(frozen=True)
class Theme:
    """The colours of a picture, each a lower-case `#rrggbb` that none of the others has."""

    name: str
    background: str
    ink: str
    faint: str
    grid: str
    accent: str
    scale: tuple[float, float]

    def retries(self, longest: int) -> list[str]:
        """A colour for each retry from the first to the `longest`, in order."""
        steps = min(longest, STEPS)
        low, high = self.scale
        colours = [_between(VIRIDIS, low + (high - low) * (step / max(1, steps - 1))) for step in range(steps)]
        return [colours[number * steps // longest] for number in range(longest)]

    @property
    def words(self) -> dict[str, str]:
        """The colours that are not those of retries, by name."""
        return {name: getattr(self, name) for name in ("background", "ink", "faint", "grid", "accent")}


LIGHT = Theme("light", "#fffffe", "#1f2430", "#5b6270", "#e3e6eb", "#33658a", (0.02, 0.86))
DARK = Theme("dark", "#111827", "#e6e8ec", "#9aa1ae", "#2a3344", "#7fb2d9", (0.3, 1.0))
THEMES = {theme.name: theme for theme in (LIGHT, DARK)}


def _between(colours: Sequence[str], share: float) -> str:
    """The colour at `share`, 0 … 1, of the way along `colours`."""
    place = share * (len(colours) - 1)
    first = min(int(place), len(colours) - 2)
    pairs = zip(_channels(colours[first]), _channels(colours[first + 1]), strict=True)
    return "#" + "".join(f"{round(low + (high - low) * (place - first)):02x}" for low, high in pairs)


def _channels(colour: str) -> tuple[int, ...]:
    return tuple(int(colour[start : start + 2], 16) for start in (0, 2, 4))
