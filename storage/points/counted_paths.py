"""Paths that share a message: one sentence for each kind, which counts them and names the first ones."""

SHOWN, KINDS = 3, 100


class CountedPaths:
    """Counts paths by kind, in at most `KINDS` sentences."""

    def __init__(self) -> None:
        self._named: dict[str, list[str]] = {}
        self._more: dict[str, int] = {}

    def add(self, what: str, path: str) -> None:
        """`what`: such as `modes were not set: Operation not permitted`."""
        if what in self._named or len(self._named) < KINDS:
            named = self._named.setdefault(what, [])
            if len(named) < SHOWN:
                named.append(path)
            else:
                self._more[what] = self._more.get(what, 0) + 1

    @property
    def sentences(self) -> list[str]:
        more = {what: f" and {number:,} more" for what, number in self._more.items()}
        return [f"{what}: {', '.join(named)}{more.get(what, '')}" for what, named in self._named.items()]
