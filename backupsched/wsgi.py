"""The web application, which `manage.py web` serves."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "backupsched.settings")

application = get_wsgi_application()
