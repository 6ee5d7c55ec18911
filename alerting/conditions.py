"""The condition of alerts themselves."""

from alerting.models import AlertRoute
from alerting.untold import ADD_ONE, UNTOLD, is_untold
from operations.finding import Finding, Look, condition, ok, warning


@condition()
def alert_routes(look: Look) -> Finding:
    """Whether operators hear of what goes wrong without looking."""
    names = list(AlertRoute.objects.filter(enabled=True).values_list("name", flat=True))
    if is_untold():
        return warning(UNTOLD, ADD_ONE, routes=names)
    return ok("what goes wrong is sent to people" if names else "there is no source to send alerts of", routes=names)
