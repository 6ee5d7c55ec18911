from django.apps import AppConfig


class DeliveryConfig(AppConfig):
    name = "delivery"
    verbose_name = "Delivery"

    def ready(self) -> None:
        from audit.tables import follow, named
        from delivery import handlers
        from delivery.models import Endpoint, SigningSecret

        handlers.register()
        follow(Endpoint, hidden=("headers", "sealed_authorization"))
        follow(SigningSecret, title=named("delivery_endpoint", "endpoint_id"), hidden=("sealed",))
