"""How a pause is asked for over the API: in a body, or in the query."""

from typing import Any

from api.errors import not_valid
from api.fields import Body, Instant, Line
from jobs.clock import database_clock


class PauseRequest(Body):
    """`reason`: why nothing starts. `until`: when it is resumed by itself; null: not before a person does it."""

    reason: Line = ""
    until: Instant | None = None

    def checked(self) -> dict[str, Any]:
        """What a verb that pauses takes. Raises: ApiError (422) for an `until` that is over."""
        if self.until is not None and self.until <= database_clock():
            raise not_valid([("until", "must be in the future")])
        return {"reason": self.reason, "until": self.until}
