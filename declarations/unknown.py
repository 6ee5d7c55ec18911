"""What is said of a name that nothing has."""

import difflib
from collections.abc import Sequence

SHOWN_NAMES = 20


def no_such(word: str, name: str, names: Sequence[str]) -> str:
    """That no `word`, as *source*, is called `name`, with similar ones of `names`, or some; without full stop."""
    return f"there is no {word} {name!r}; {similar(name, names)}"


def similar(name: str, names: Sequence[str]) -> str:
    """A question for those of `names` that are like `name`, or which there are."""
    if close := difflib.get_close_matches(name, names, n=3):
        return f"did you mean {' or '.join(map(repr, close))}?"
    return there_are(names)


def there_are(names: Sequence[str]) -> str:
    """In words, the first SHOWN_NAMES."""
    some = ", ".join(names[:SHOWN_NAMES]) + (", …" if len(names) > SHOWN_NAMES else "")
    return f"there {'is' if len(names) < 2 else 'are'} {some or 'none yet'}"
