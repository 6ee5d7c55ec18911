from delivery.models.endpoint import Endpoint, EndpointKind, SigningSecret
from delivery.models.event import Event

__all__ = ["Endpoint", "EndpointKind", "Event", "SigningSecret"]
