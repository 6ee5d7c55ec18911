"""Where each file of a point lies. Pure.

`versions/<run>` holds what that run replaced or deleted. So a file of a point was moved to the first later run that
touched its path, and still lies in `current` if none did.
"""

from collections.abc import Collection, Iterable, Mapping

from sources.storage import layout


def place_of(path: str, point: str, versions: Mapping[str, Collection[str]]) -> str:
    """The folder, in that of its assignment, in which `path` of `point` lies: as `versions/20261121T065755Z`.

    `versions`: the paths in the folder of each run.
    """
    for run in later_runs(point, versions):
        if path in versions[run]:
            return f"{layout.VERSIONS}/{run}"
    return layout.CURRENT


def later_runs(point: str, runs: Iterable[str]) -> list[str]:
    """The runs that came after a point, the first one first."""
    return sorted((run for run in runs if layout.order_of(run) > layout.order_of(point)), key=layout.order_of)
