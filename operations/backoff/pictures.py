"""Pictures within a page: one a study, in the page's own colours, light or dark."""

from collections.abc import Sequence

from django.utils.html import escape

from delivery import extras
from operations.backoff import svg
from operations.backoff.frames import frame_of
from operations.backoff.subjects import Study


def missing() -> str:
    """What to install, for pictures; empty: they can be drawn."""
    return extras.missing("matplotlib", "a picture")


def inline(studies: Sequence[Study], scale: str = "auto") -> list[str]:
    """An `<svg>` element for each, wide when it is alone; the axes are shared. Without matplotlib a sentence each."""
    if lacking := missing():
        return [escape(lacking)] * len(studies)
    from operations.backoff import charts

    frame = frame_of(studies, scale)
    narrow = len(studies) > 1
    drawn = [(study, charts.draw([study], frame=frame, narrow=narrow).decode()) for study in studies]
    return [svg.themed(picture, study.series.longest) for study, picture in drawn]
