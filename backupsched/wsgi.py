"""The web application, for any WSGI server: `gunicorn backupsched.wsgi`."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "backupsched.settings")

application = get_wsgi_application()
