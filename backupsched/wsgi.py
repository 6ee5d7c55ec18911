"""The web application, which `manage.py web` serves."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "backupsched.settings")

django_application = get_wsgi_application()

from api.usual_check_ins import usual_check_ins  # noqa: E402  (its models need the applications)
from operations.patience import FORM_SECONDS, Line  # noqa: E402

Line.usual_seconds = FORM_SECONDS  # or each thread in turn would wait for ever for a server that stands still
application = usual_check_ins(django_application)
