from __future__ import annotations

from typing import TYPE_CHECKING

from django.apps import AppConfig

if TYPE_CHECKING:
    from operations.doctor import Examination


class SourcesConfig(AppConfig):
    name = "sources"
    verbose_name = "Sources"

    def ready(self) -> None:
        from sources import backups

        backups.register()

    def examinations(self) -> list[Examination]:
        """For `operations.doctor`."""
        from sources import doctor

        return [doctor.repository_modes]
