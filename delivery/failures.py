"""What went wrong on the way to an answer, in words: never those of the HTTP client, which quote URLs and headers."""

import os
import socket
import ssl

import aiohttp

from delivery.http.resolving import NoSuchName, NotAllowed

RAISED = (aiohttp.ClientError, aiohttp.http.HttpProcessingError, OSError, ValueError)
"""What the HTTP client raises. TimeoutError and SSLError are OSErrors."""

NO_REASON = "no reason was given"


def is_ours(error: BaseException) -> bool:
    """Whether it is no fault of the host: our rules, or our request, forbid it."""
    return isinstance(_cause(error), NotAllowed) or isinstance(error, aiohttp.InvalidURL | ValueError)


def describe(error: BaseException, origin: str, connect_timeout: float, timeout: float) -> str:
    """One sentence about what happened with `origin`. Both times in seconds."""
    match error:
        case aiohttp.ConnectionTimeoutError():
            return f"{origin} did not accept a connection within {connect_timeout:g} s"
        case TimeoutError():
            return f"{origin} did not answer within {timeout:g} s"
        case aiohttp.ClientConnectorCertificateError():
            return f"{origin} has a certificate that is not trusted: {_said_of_certificate(error.certificate_error)}"
        case aiohttp.ClientConnectorDNSError():
            return _describe_name(_cause(error), origin)
        case aiohttp.ClientSSLError():
            return f"{origin} does not speak TLS with us: {_said_of_tls(error)}"
        case aiohttp.ClientConnectorError():
            return f"{origin} could not be reached: {_said_by_system(error.os_error)}"
        case aiohttp.ServerDisconnectedError():
            return f"{origin} hung up without an answer"
        case aiohttp.ClientPayloadError():
            return f"{origin} broke off in the middle of its answer"
        case aiohttp.ClientResponseError() | aiohttp.http.HttpProcessingError():
            return f"{origin} answered something that is not HTTP"
        case aiohttp.InvalidURL() | ValueError():
            return f"a header or the URL for {origin} cannot be sent: has it a line break in it?"
        case ssl.SSLError():
            return f"{origin} broke off the TLS connection: {error.reason or NO_REASON}"
        case OSError():
            return f"the connection to {origin} broke: {_said_by_system(error)}"
        case _:
            return f"the request to {origin} failed, and {NO_REASON}"


def _cause(error: BaseException) -> BaseException:
    """The system's error within that of the client."""
    return error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error


def _describe_name(cause: BaseException, origin: str) -> str:
    match cause:
        case NotAllowed():
            return f"nothing is delivered to {origin}: {cause}"
        case NoSuchName():
            return f"the name of {origin} could not be looked up: {cause}"
        case _:
            return f"the name of {origin} could not be looked up"


def _said_of_certificate(error: Exception) -> str:
    return getattr(error, "verify_message", "") or getattr(error, "reason", "") or NO_REASON


def _said_of_tls(error: aiohttp.ClientSSLError) -> str:
    cause = error.os_error
    return getattr(cause, "reason", "") or _said_by_system(cause)


def _said_by_system(error: OSError) -> str:
    """The system's words, without addresses and numbers."""
    if error.errno is None or error.errno < 0 or isinstance(error, socket.gaierror):
        return error.strerror or NO_REASON
    return os.strerror(error.errno)
