"""Text that can be drawn: a person's name for a policy may hold any letter, and a font does not."""

from functools import lru_cache

from matplotlib.font_manager import FontProperties, findfont, get_font

MISSING = "□"


def drawable(text: str) -> str:
    """`text` with a box for each letter that the font of the pictures lacks."""
    return "".join(letter if letter == "\n" or ord(letter) in _letters() else MISSING for letter in text)


@lru_cache(maxsize=1)
def _letters() -> frozenset[int]:
    return frozenset(code for code in get_font(findfont(FontProperties())).get_charmap() if code >= ord(" "))
