"""What is said of a name that nothing has."""

import difflib
from collections.abc import Sequence

SHOWN_NAMES = 20


def no_such(word: str, name: str, names: Sequence[str]) -> str:
    """That no `word`, as *source*, is called `name`, with similar ones of `names`, or some; without full stop."""
    if close := difflib.get_close_matches(name, names, n=3):
        text = f"did you mean {' or '.join(map(repr, close))}?"
    else:
        some = ", ".join(names[:SHOWN_NAMES]) + (", …" if len(names) > SHOWN_NAMES else "")
        text = f"there {'is' if len(names) < 2 else 'are'} {some or 'none at all: make one in the admin'}"
    return f"there is no {word} {name!r}; {text}"
