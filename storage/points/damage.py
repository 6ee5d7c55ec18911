"""Damage: the findings of a check that differ from a manifest."""

from dataclasses import dataclass

from storage import layout

MOST_DAMAGED = 100
"""The most damaged files that are listed, and read again by each run. With more, the disk should be replaced."""
GONE = "it is not in the repository any more, and nothing here has removed it"
"""The reason for a missing point."""


@dataclass(frozen=True)
class Damage:
    """A file that is not as a manifest says. `point`: the newest point that holds it; `oldest`: the oldest one, so that
    all points between them hold it, or empty if only `point` does. `place`: as `Entry.place`; `manifests` for a point
    as a whole. `repository`: its id. `is_all`: True if the point has nothing else, since it is a dump.
    """

    point: str
    path: str
    place: str
    why: str
    repository: int | None = None
    oldest: str = ""
    is_all: bool = False

    @property
    def points(self) -> str:
        """The points that hold it, as text."""
        if self.oldest in ("", self.point):
            return self.point
        return f"{self.point} and of all points before it since {self.oldest}"

    def touches(self, point: str) -> bool:
        """True if a point holds it. The names of both are sound."""
        return not layout.is_later(point, self.point) and not layout.is_later(self.oldest or self.point, point)


def of_manifest(point: str, why: str, repository: int | None = None) -> Damage:
    """The damage of a point whose manifest cannot be read, or is missing."""
    return Damage(point, f"{layout.MANIFESTS}/{point}", layout.MANIFESTS, why, repository)
