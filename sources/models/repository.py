from django.db import models


class Repository(models.Model):
    """Where backups go. A directory of this host (or a mounted share) in this first form."""

    name = models.CharField(max_length=100, unique=True)
    location = models.CharField(max_length=500, help_text="Absolute path of a directory, as /srv/backups.")

    class Meta:
        verbose_name_plural = "repositories"

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        """Check the location. Raises: ValidationError naming the field."""
        from sources.backups import overlaps
        from sources.validation import check_repository_location

        check_repository_location(self.location)
        overlaps.check_repository(self)
