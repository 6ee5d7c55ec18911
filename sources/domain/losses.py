"""Treatment of an assignment whose source is lost in mid-backup.

After one loss the scheduler waits for it, and it comes first in line, once. From the second loss in a row on it ranks
behind the sources that are there, whatever it answers and however often it checks in, until a backup of it succeeds
(docs/decisions/0080). A first backup continues where it was cut off, and ranks there from its first loss on
(docs/decisions/0137). Neither is a failure.
"""

from datetime import datetime, timedelta
from typing import NamedTuple

from external.formatting import moment, several


class Loss(NamedTuple):
    """The number of losses of an assignment since its last success, the instant of the last one, and when its source
    last answered.
    """

    in_a_row: int
    last_at: datetime | None
    answered_at: datetime | None
    forgiven: int = 1
    """The number of losses in a row that leave it first in line: one, or none for a first backup."""

    @property
    def next_is_forgiven(self) -> bool:
        """True if one more loss leaves it first in line."""
        return self.in_a_row < self.forgiven

    @property
    def is_first_in_line(self) -> bool:
        """True if its next answer is the first one since its only loss."""
        if self.last_at is None or self.in_a_row > self.forgiven:
            return False
        return self.answered_at is None or self.answered_at <= self.last_at

    @property
    def demoted_since(self) -> datetime | None:
        """The instant whose day its place is counted from. None if it keeps its true place."""
        return self.last_at if self.in_a_row > self.forgiven else None

    def holds_off(self, now: datetime, recheck_after: float) -> bool:
        """True if not even a check-in has it asked at `now`: less than `recheck_after` seconds after such a loss."""
        since = self.demoted_since
        return since is not None and since <= now < since + timedelta(seconds=recheck_after)

    @property
    def sentence(self) -> str:
        """A sentence without its subject. Empty if there is nothing to say."""
        if self.demoted_since is None:
            return ""
        if self.in_a_row == 1:
            return f"broke off at {moment(self.demoted_since)} UTC"
        return f"broke off {several(self.in_a_row, 'time')} in a row, last at {moment(self.demoted_since)} UTC"
