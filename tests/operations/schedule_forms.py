"""The form of a schedule as a browser sends it."""

from typing import Any

from tests.schedules.factories import make_endpoint


def form(**fields: Any) -> dict[str, Any]:
    """The data of a user who fills in a schedule of callbacks; `endpoint` is made unless it is given."""
    values = {
        "name": "nightly", "enabled": "on", "cron": "0 3 * * *", "zone": "UTC", "kind": "http_callback",
        "event_count": "100", "window_for": "3600", "stagger": "even", "late": "deliver", "overlap": "allow",
        "catch_up_for": "", "payload_template": '{"shard": "$number"}', "throttle": "", "retry_policy": "",
        "priority": "0",
    }  # fmt: skip
    if "endpoint" not in fields:
        values["endpoint"] = str(make_endpoint().pk)
    return values | fields
