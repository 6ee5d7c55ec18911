"""Pages for monitoring of a web process: `/metrics`, `/livez` (also `/healthz`), `/readyz`.

They are answered before all else: monitoring knows a host by its address, sends no cookie and follows no redirect. One
thread queries the database for them, at most once in some seconds, and requests wait for it for a limited time.
"""

import ipaddress
import logging
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotInTime
from threading import Lock

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import Error, connection
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from prometheus_client import CONTENT_TYPE_LATEST

from api.auth import Staff
from api.errors import ApiError
from api.models import Scope
from dashboard import metrics
from declarations.surfaces.patience import TookTooLong, at_most
from jobs import schema_check
from jobs.database_errors import is_away
from operations.limits import TooMany

log = logging.getLogger(__name__)

FRESH_SECONDS = 10.0
"""Metrics are asked of the database once in this time, however many ask for them."""
METRICS_SECONDS = 8.0
"""Less than the 10 s that Prometheus waits by default."""
READY_FRESH_SECONDS = 5.0
"""Reading the migrations from disk takes 0.1 s."""
READY_SECONDS = 3.0
STEADY_SECONDS = 15.0
"""A web process that was ready stays so for this long after the last answer of its database: one slow answer, or a
failover, takes no process out of a load balancer's list, let alone all at once. Where it is asked less often than that,
the first answer that fails takes it out.
"""

MAY_READ = Staff(Scope.READ, "sources.view_source")


class LatestResult:
    """The latest result of `compute`, from its own thread, at most `fresh` seconds old."""

    def __init__(self, compute: Callable[[], bytes], fresh: float, patience: float) -> None:
        self._compute, self._fresh, self._patience = compute, fresh, patience
        self._lock, self._began = Lock(), float("-inf")
        self._thread = ThreadPoolExecutor(1, "monitoring")
        self._result: Future[bytes] | None = None

    def get(self) -> bytes:
        """The latest answer. Raises: the exceptions of `compute`; TimeoutError."""
        with self._lock:
            is_old = time.monotonic() - self._began > self._fresh
            if self._result is None or (self._result.done() and is_old):
                self._began = time.monotonic()
                self._result = self._thread.submit(self._closing)
            result = self._result
        return result.result(self._patience)

    def forget(self) -> None:
        """Discard the result, so that the next one who asks gets a new one."""
        with self._lock:
            self._began = float("-inf")

    def _closing(self) -> bytes:
        try:
            return self._compute()
        finally:
            connection.close()


class NotReady(Exception):
    """The message gives the reason."""


class NotSteadyYet(Exception):
    """The database answers again, and not yet for long enough."""


class SteadyProbe:
    """Hysteresis over `get`. Its last answer covers errors until it is `seconds` old; after longer ones it has to
    answer for a third of that time before it is believed, so that an unstable server stays away. NotReady is a fact and
    not an error: it is passed on at once, and no earlier answer covers later errors.
    """

    def __init__(self, get: Callable[[], bytes], seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._get, self._seconds, self._clock, self._lock = get, seconds, clock, Lock()
        self._answer: bytes | None = None
        self._answered_at = float("-inf")
        self._is_out = False
        self._good_since: float | None = None

    def get(self) -> bytes:
        """The latest steady answer. Raises: the exceptions of `get`; NotSteadyYet."""
        try:
            answer = self._get()
        except NotReady:
            with self._lock:
                self._answer, self._is_out, self._good_since = None, False, None
            raise
        except Exception:
            with self._lock:
                self._good_since = None
                if self._answer is None or self._clock() - self._answered_at >= self._seconds:
                    self._answer, self._is_out = None, True
                    raise
                return self._answer
        with self._lock:
            now = self._clock()
            self._good_since = now if self._good_since is None else self._good_since
            if self._is_out and now - self._good_since < self._seconds / 3:
                raise NotSteadyYet
            self._answer, self._answered_at, self._is_out = answer, now, False
            return answer


def _readiness() -> bytes:
    with at_most(READY_SECONDS):
        if differences := schema_check.differences().what:
            raise NotReady(differences)
    return b"ready\n"


TOTALS = LatestResult(metrics.exposition, FRESH_SECONDS, METRICS_SECONDS)
BY_SOURCE = LatestResult(lambda: metrics.exposition(by_source=True), FRESH_SECONDS, METRICS_SECONDS)
READINESS = LatestResult(_readiness, READY_FRESH_SECONDS, READY_SECONDS)
STEADIED = SteadyProbe(lambda: READINESS.get(), STEADY_SECONDS)


def livez(request: HttpRequest) -> HttpResponse:
    """This process answers. Asks no database."""
    return _plain("ok")


def readyz(request: HttpRequest) -> HttpResponse:
    """The database answers and has the tables of this version; otherwise 503 with the reason. An outage shorter than
    STEADY_SECONDS changes nothing.
    """
    return _answer(STEADIED, "text/plain; charset=utf-8")


def metrics_page(request: HttpRequest) -> HttpResponse:
    """Metrics for a token of the scope `read` whose user may view sources, and for `BACKUPSCHED_METRICS_NETWORKS`."""
    try:
        if not _is_of_a_network(request):
            if not request.headers.get("Authorization", "").lower().startswith("bearer "):
                raise ApiError(401)
            MAY_READ(request)
    except ApiError as error:
        return error.response(request)
    except TooMany as error:
        return ApiError(429, headers={"Retry-After": str(error.seconds)}).response(request)
    except Error as error:
        return _unanswered(error)
    return _answer(BY_SOURCE if request.GET.get("sources") == "1" else TOTALS, CONTENT_TYPE_LATEST)


PAGES = {"/metrics": metrics_page, "/healthz": livez, "/livez": livez, "/readyz": readyz}


class MonitoringPages:
    """Middleware, to be the first."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        page = PAGES.get(request.path_info)
        if page is None:
            return self._get_response(request)
        if request.method not in ("GET", "HEAD"):
            return HttpResponseNotAllowed(["GET", "HEAD"])
        return page(request)


def _is_of_a_network(request: HttpRequest) -> bool:
    try:
        address = ipaddress.ip_address(request.META.get("REMOTE_ADDR", ""))
    except ValueError:
        return False
    return any(address in network for network in settings.METRICS_NETWORKS)


def _answer(kept: LatestResult | SteadyProbe, content_type: str) -> HttpResponse:
    try:
        answer = HttpResponse(kept.get(), content_type=content_type)
    except NotReady as error:
        return _plain(str(error), 503)
    except NotSteadyYet:
        return _plain("the database answers again, and not yet for long enough", 503)
    except (Error, TookTooLong, NotInTime, ImproperlyConfigured) as error:
        return _unanswered(error)
    answer["Cache-Control"] = "no-store"
    return answer


def _unanswered(error: Exception) -> HttpResponse:
    """The log has the details, since an error of the database may name its user."""
    log.warning("cannot answer monitoring: %s", " ".join(str(error).split()) or "the database took too long")
    in_time = isinstance(error, NotInTime | TookTooLong)
    if not in_time and not is_away(error):
        return _plain("the database cannot answer that; the log of the web process has the cause", 503)
    return _plain("the database does not answer in time" if in_time else "the database does not answer", 503)


def _plain(sentence: str, status: int = 200) -> HttpResponse:
    answer = HttpResponse(f"{sentence}\n", status=status, content_type="text/plain; charset=utf-8")
    answer["Cache-Control"] = "no-store"
    return answer
