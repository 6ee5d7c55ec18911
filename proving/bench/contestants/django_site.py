"""Settings and the no-op job of the contestants that are Django applications. Configured by the environment."""

import json
import os
from typing import Any

import dj_database_url

SECRET_KEY = "bench"  # noqa: S105 - signs nothing of worth
USE_TZ = True
DATABASES = {"default": {**dj_database_url.parse(os.environ["DATABASE_URL"]), "CONN_MAX_AGE": None}}
INSTALLED_APPS = json.loads(os.environ["BENCH_APPS"])
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
Q_CLUSTER: dict[str, Any] = json.loads(os.environ.get("BENCH_Q_CLUSTER", "{}"))
TASKS = {"default": {"BACKEND": "django_tasks_db.DatabaseBackend", "QUEUES": ["default"]}}
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"stderr": {"class": "logging.StreamHandler"}},
    "root": {"handlers": ["stderr"], "level": "ERROR"},
    "loggers": {name: {"level": "ERROR"} for name in ("django-q", "django_tasks", "django_tasks_db")},
}
