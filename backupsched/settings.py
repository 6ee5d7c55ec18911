"""Settings of the project. Everything an operator changes comes from the environment: docs/settings.md."""

import os
from pathlib import Path

from csp.constants import NONE, SELF, UNSAFE_EVAL, UNSAFE_INLINE
from django.templatetags.static import static

from backupsched.database import databases
from backupsched.environment import (
    listed,
    networks,
    number,
    one_of,
    paths,
    seconds,
    some_of,
    umask,
    web_address,
    whole,
)
from backupsched.first_run import read_settings
from backupsched.places import CHECKOUT, PACKAGE, PROGRAM, SHIPPED, secret_key, usual_var_directory
from backupsched.secret_files import read_secret_files

BASE_DIR = PACKAGE.parent
VAR_DIR = Path(os.environ.get("BACKUPSCHED_VAR") or usual_var_directory(os.environ, os.geteuid())).resolve()
KEPT_IN_FILES = read_settings(VAR_DIR, os.environ)
if CHECKOUT is None:
    KEPT_IN_FILES |= read_settings(Path("/etc/backupsched"), os.environ)
DATABASE_SECRET_IS_KEPT_APART = read_secret_files(os.environ)
AGENT = SHIPPED / "agent" / "backupsched-agent"
DOCS = SHIPPED / "docs"

DEBUG = os.environ.get("DEBUG") == "1"
SECRET_KEY = os.environ.get("SECRET_KEY") or secret_key(VAR_DIR)
SECRET_KEY_FALLBACKS = [key for key in os.environ.get("SECRET_KEY_FALLBACKS", "").split(",") if key]
ALLOWED_HOSTS = os.environ.get("ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]").split(",")
CSRF_TRUSTED_ORIGINS = [o for o in os.environ.get("CSRF_TRUSTED_ORIGINS", "").split(",") if o]

INSTALLED_APPS = [
    "backupsched",  # before the theme, whose pages it extends
    "backupsched.theme.Theme",
    "demo",
    "dashboard",
    "simulation",
    "alerting",
    "fleet",
    "backups",
    "sources",
    "audit",
    "jobs",
    "sealing",
    "delivery",
    "schedules",
    "operations",
    "declarations",
    "api",
    "api.apps.FilesOfNinja",
    "django_q",
    "axes",
    "csp",
    "backupsched.theme.AdminPages",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
]
MIDDLEWARE = [
    "backupsched.monitoring.MonitoringPages",
    "django.middleware.security.SecurityMiddleware",
    "csp.middleware.CSPMiddleware",
    "api.errors.JsonErrors",
    "declarations.surfaces.web.error_pages.Answers",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "declarations.surfaces.web.audit.ActorMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "axes.middleware.AxesMiddleware",
    "declarations.surfaces.web.shown_text.ShownText",
    "declarations.surfaces.web.error_pages.PageTimeLimit",
]
ROOT_URLCONF = "backupsched.urls"
WSGI_APPLICATION = "backupsched.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "operations.hold.in_pages",
            ]
        },
    }
]

WAKE = os.environ.get("BACKUPSCHED_WAKE", "listen")
DATABASES = databases(
    os.environ.get("DATABASE_URL"), VAR_DIR, pooled=WAKE == "poll", kept_in=KEPT_IN_FILES.get("DATABASE_URL")
)
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
FORMAT_MODULE_PATH = "backupsched.formats"
STATIC_URL = "static/"
LOGIN_REDIRECT_URL = "home"
WHITENOISE_USE_FINDERS = True

AUTHENTICATION_BACKENDS = ["axes.backends.AxesStandaloneBackend", "django.contrib.auth.backends.ModelBackend"]
AXES_HANDLER = "backupsched.logins.LoginLimits"
AXES_LOCKOUT_CALLABLE = "backupsched.logins.locked_out"
AXES_CLIENT_IP_CALLABLE = "backupsched.logins.address_of"
AXES_VERBOSE = False
AXES_ENABLE_ADMIN = False  # its tables stay empty
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in ("UserAttributeSimilarityValidator", "MinimumLengthValidator", "CommonPasswordValidator")
]
TLS = os.environ.get("BACKUPSCHED_TLS") == "1"
PROXY = os.environ.get("BACKUPSCHED_PROXY", "127.0.0.1" if TLS else "")
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_SSL_REDIRECT = TLS
SECURE_HSTS_SECONDS = 365 * 86_400 if TLS else 0
# HSTS for subdomains and preloading are for the domain's owner to decide; the proxy may add them
# Django 6.0 wants `django.contrib.postgres` for array fields, which it needs for lookups and forms that are not used
# here; its app asks each new connection for types of extensions
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021", "postgres.E005"]
# the theme's Alpine evaluates the attributes of its templates; style attributes are the theme's and the pictures'
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        "script-src": [SELF, UNSAFE_EVAL],
        "style-src-attr": [UNSAFE_INLINE],
        "img-src": [SELF, "data:"],
        "object-src": [NONE],
        "base-uri": [SELF],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
    }
}

# a form with all that a policy may have: two windows of 200 ranges and 200 excluded dates, three inputs each
DATA_UPLOAD_MAX_NUMBER_FIELDS = 2_500

# django-q2 runs only the short periodic tasks; backups run in `manage.py worker`. Each value closes a known
# trap: docs/decisions/0004-django-q2-runs-the-clock-only.md
Q_CLUSTER = {
    "name": "backupsched",
    "orm": "default",
    "broker_class": "operations.periodic_broker.PeriodicTasksOnly",
    "workers": 1,
    "queue_limit": 1,
    "bulk": 1,
    "timeout": 300,
    "retry": 600,
    "max_attempts": 1,
    "ack_failures": True,
    "catch_up": False,
    "poll": 1,
    "save_limit": 100,
    "label": "Periodic tasks",
}

# where the round of each minute in which the scheduler was seen to work is reported: a dead-man ping
PING_URL = web_address("BACKUPSCHED_PING_URL")

SECRETS_DIRECTORIES = paths(
    "BACKUPSCHED_SECRETS_DIRECTORIES",
    "/etc/backupsched",
    "/run/secrets",
    os.environ.get("CREDENTIALS_DIRECTORY"),
    VAR_DIR / "secrets",
)
FOLDERS = paths("BACKUPSCHED_FOLDERS", "/home", "/srv", "/mnt", "/media", "/data", "/backup")
RESTORE_FOLDERS = paths("BACKUPSCHED_RESTORE_FOLDERS", "/srv/restored")

# name of the repository for backups of the scheduler itself, by default the oldest one; `none` for no such backups
SELF_BACKUP_TO = os.environ.get("BACKUPSCHED_SELF_BACKUP_TO", "")

# the server that drills of databases use for some minutes
SCRATCH_SERVER = "backupsched.embedded.binaries.scratch_server"

RESERVE_PERCENT = number("BACKUPSCHED_RESERVE", 1)
MEMORY_MIB = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2**20
ENGINE_MEMORY_MIB = whole("BACKUPSCHED_ENGINE_MEMORY", max(1024, MEMORY_MIB // 2))
UMASK = umask("BACKUPSCHED_UMASK", 0o077)
# programs of the host that policies may run before and after backups, owned by root
HOOKS_FILE = Path(os.environ.get("BACKUPSCHED_HOOKS") or "/etc/backupsched/hooks.toml")
# whether a source or repository at loopback needs no permission
LOOPBACK = one_of("BACKUPSCHED_LOOPBACK", "open", "permission") == "open"
WAKE_NETWORKS = networks("BACKUPSCHED_WAKE_NETWORKS")
CALLBACKS_ALLOWED = listed("BACKUPSCHED_CALLBACKS_ALLOWED")
METRICS_NETWORKS = networks("BACKUPSCHED_METRICS_NETWORKS")

# parts of the order that are turned off
ORDER_WITHOUT = some_of("BACKUPSCHED_ORDER_WITHOUT", "resume", "sizes", "hours", "waking")

CHECK_IN_EVERY = seconds("BACKUPSCHED_CHECK_IN_EVERY", 300)

CACHES = {
    "default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"},
    # how often each agent asked; separate, and large, since a full cache evicts at random
    "limits": {
        "BACKEND": "django.core.cache.backends.locmem.LocMemCache",
        "LOCATION": "limits",
        "OPTIONS": {"MAX_ENTRIES": 100_000},
    },
}

JOBS = {
    # name → how many records of it one worker process runs at once; `feeds`: claim only while the named queue
    # is short of ready records (docs/lifecycle.md, look-ahead)
    "QUEUES": {
        "arrivals": {"concurrency": 200, "feeds": "backups"},
        "availability": {"concurrency": 200, "feeds": "backups"},
        "backups": {"concurrency": 16},
        "callbacks": {"concurrency": 200},
        "restores": {"concurrency": 2},
        "default": {"concurrency": 4},
    },
    "PROGRAM": PROGRAM,
    "LEASE_SECONDS": seconds("BACKUPSCHED_LEASE", 60),
    "WAKE": WAKE,
    "KEEP_FINISHED_DAYS": number("BACKUPSCHED_KEEP_DAYS", 90),
    "CONSIDERING": os.environ.get("BACKUPSCHED_CONSIDERING") == "1",
    "KEEP_LOG_DAYS": number("BACKUPSCHED_KEEP_LOG_DAYS", 14),
    "SWEEP_MAX_RECORDS": whole("BACKUPSCHED_SWEEP_MAX_RECORDS", 10000),
    "BREAKER_AFTER": whole("BACKUPSCHED_BREAKER_AFTER", 3),
    "BREAKER_PROBE_SECONDS": seconds("BACKUPSCHED_BREAKER_PROBE", 60),
    "BREAKER_LONGEST_SECONDS": seconds("BACKUPSCHED_BREAKER_LONGEST", 900),
}

# for matplotlib's cache of fonts, since a service may have no home directory
os.environ.setdefault("MPLCONFIGDIR", str(VAR_DIR / "matplotlib"))

UNFOLD = {
    "SITE_TITLE": "Proactive backup scheduler",
    "SITE_HEADER": "Backup scheduler",
    "SITE_SUBHEADER": "UTC, and your time next to it",
    "SITE_SYMBOL": "backup",
    "SIDEBAR": {"navigation": "backupsched.sidebar.sidebar"},
    "SITE_FAVICONS": [
        {"rel": "icon", "type": "image/svg+xml", "href": lambda request: static("backupsched/favicon.svg")},
    ],
    # no style sheet within a page: the same colours come from colours.css
    "COLORS": lambda request: {},
    "STYLES": [
        lambda request: static("backupsched/colours.css"),
        lambda request: static("declarations/pages.css"),
    ],
    "SCRIPTS": [
        lambda request: static("backupsched/htmx.js"),
        lambda request: static("dashboard/local_time.js"),
    ],
}

LINES = {
    "text": {
        "()": "declarations.surfaces.printable.PrintableFormatter",
        "format": "%(asctime)s %(levelname)-7s %(name)s %(message)s",
    },
    "json": {"()": "declarations.surfaces.json_lines.JsonLines"},
}
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": LINES[one_of("LOG_FORMAT", "text", "json")]},
    "filters": {"of_record": {"()": "jobs.log_fields.OfRecord"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line", "filters": ["of_record"]}},
    "root": {"handlers": ["stderr"], "level": os.environ.get("LOG_LEVEL", "INFO")},
    "loggers": {"matplotlib": {"level": "WARNING"}},
}
