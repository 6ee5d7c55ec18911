from django.apps import AppConfig


class SealingConfig(AppConfig):
    name = "sealing"
    verbose_name = "Secrets"

    def ready(self) -> None:
        from audit.tables import follow
        from sealing.models import StoredSecret

        follow(StoredSecret, hidden=("sealed",))
