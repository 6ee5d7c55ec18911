"""What `manage.py doctor` looks at for this app."""

from datetime import datetime

from django.conf import settings
from django.db.backends.utils import CursorWrapper

from operations.doctor.finding import COUNT_TO, Answer, condition, listed, ok, several, warning
from sources.backups import repositories
from sources.models import Assignment, Repository


@condition("")
def repository_modes(cursor: CursorWrapper, now: datetime) -> Answer:
    """Whether copies are open to accounts of the host that `BACKUPSCHED_UMASK` closes them to."""
    found = [(each, repositories.why("open_to_others", each.location)) for each in Repository.objects.order_by("name")]
    is_open = {each.name: why for each, why in found if why}
    if not is_open:
        return ok("no repository is open to accounts that the umask keeps out", open=[])
    where = listed(list(is_open.values()))
    return warning(
        f"{len(is_open)} of {several(len(found), 'place')} for backups could be read by others: {where}",
        f"chmod -R u=rwX,go= what is named, or set BACKUPSCHED_UMASK (now {settings.UMASK:03o}) if others may read it",
        open=sorted(is_open),
    )


@condition(
    "no backup looks wrong beside those before it",
    "nothing is removed of what looked wrong: {}",
    "look at those backups; if they are meant so, `manage.py held_back accept SOURCE`",
)
def held_back(cursor: CursorWrapper, now: datetime) -> Answer:
    """Assignments whose backups a person has to look at."""
    held = Assignment.objects.filter(held_back_since__isnull=False).order_by("held_back_since")
    rows = held.values_list("source__name", "held_back_why")[:COUNT_TO]
    return [f"{source}, {why}" for source, why in rows], {"held_back": [source for source, _ in rows]}
