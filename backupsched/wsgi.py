"""The web application, which `manage.py web` serves."""

import os
from collections.abc import Iterable
from typing import Any

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "backupsched.settings")

django_application = get_wsgi_application()

from api.usual_check_ins import usual_check_ins  # noqa: E402  (its models need the applications)
from declarations.surfaces.patience import FORM_SECONDS, BoundedConnection  # noqa: E402

BoundedConnection.usual_seconds = (
    FORM_SECONDS  # or each thread in turn would wait for ever for a server that has stopped
)
whole_application = usual_check_ins(django_application)


def application(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    """A HEAD is a GET without its body: waitress would send that, and it would be read as the next answer."""
    if environ["REQUEST_METHOD"] != "HEAD":
        return whole_application(environ, start_response)
    body: Any = whole_application({**environ, "REQUEST_METHOD": "GET"}, start_response)
    if hasattr(body, "close"):
        body.close()
    return []
