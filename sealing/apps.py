from django.apps import AppConfig


class SealingConfig(AppConfig):
    name = "sealing"
    verbose_name = "Secrets"
