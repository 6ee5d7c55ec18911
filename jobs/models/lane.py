from django.contrib.postgres.fields import ArrayField
from django.db import models


class Lane(models.Model):
    """The records that name the same set of throttles. Lane 0 has no row: it names none.

    The claim index leads with the lane, so a lane whose throttle is full costs a claim nothing.
    """

    throttle_ids = ArrayField(models.BigIntegerField(), unique=True, help_text="Ids of its throttles, ascending.")

    class Meta:
        constraints = [
            models.CheckConstraint(condition=~models.Q(throttle_ids=[]), name="lane_zero_has_no_row"),
        ]

    def __str__(self) -> str:
        return f"lane {self.pk} (throttles {', '.join(map(str, self.throttle_ids))})"
