"""What `manage.py doctor` looks at for this app."""

from datetime import datetime

from django.db.backends.utils import CursorWrapper

from alerting.models import AlertRoute
from alerting.untold import ADD_ONE, UNTOLD, is_untold
from declarations.surfaces.finding import Answer, condition, ok, warning


@condition("")
def alert_routes(cursor: CursorWrapper, now: datetime) -> Answer:
    """Whether people hear of what goes wrong without looking."""
    names = list(AlertRoute.objects.filter(enabled=True).values_list("name", flat=True))
    if is_untold():
        return warning(UNTOLD, ADD_ONE, routes=names)
    return ok("what goes wrong is sent to people" if names else "there is no source to send alerts of", routes=names)
