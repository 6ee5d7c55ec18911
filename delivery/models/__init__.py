from delivery.models.endpoint import Endpoint, EndpointKind, SigningSecret

__all__ = ["Endpoint", "EndpointKind", "SigningSecret"]
