"""What a check finds that is not as a manifest says."""

from dataclasses import dataclass

from storage import layout

MOST_DAMAGED = 100
"""That are listed, and read again by each run. With more, the disk is to be replaced."""
GONE = "it is not in the repository any more, and nothing here has removed it"
"""Of a point."""


@dataclass(frozen=True)
class Damage:
    """A file that is not what a manifest says. `point`: the newest that holds it; `oldest`: the oldest one, so that all
    points from there on hold it; empty: it alone. `place`: as `Entry.place`; of a point as a whole: `manifests`.
    `repository`: its id. `is_all`: the point has nothing else: it is a dump."""

    point: str
    path: str
    place: str
    why: str
    repository: int | None = None
    oldest: str = ""
    is_all: bool = False

    @property
    def points(self) -> str:
        """Which points hold it, in words."""
        if self.oldest in ("", self.point):
            return self.point
        return f"{self.point} and of all points before it since {self.oldest}"

    def touches(self, point: str) -> bool:
        """Whether a point holds it. The names of both are sound."""
        return not layout.is_later(point, self.point) and not layout.is_later(self.oldest or self.point, point)


def of_manifest(point: str, why: str, repository: int | None = None) -> Damage:
    """A point whose manifest cannot be read, or is not there."""
    return Damage(point, f"{layout.MANIFESTS}/{point}", layout.MANIFESTS, why, repository)
