from django.db import models


class Repository(models.Model):
    """Where backups go. A directory of this host (or a mounted share) in this first form."""

    name = models.CharField(max_length=100, unique=True)
    location = models.CharField(max_length=500)

    class Meta:
        verbose_name_plural = "repositories"

    def __str__(self) -> str:
        return self.name
