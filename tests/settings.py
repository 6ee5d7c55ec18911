"""The project's settings, on a database server of the test session's own.

Its directory is chosen here, before the settings are read, and handed on by the environment to test processes.
"""

import os
import tempfile
from pathlib import Path

from backupsched.database import databases

if "BACKUPSCHED_TEST_VAR" not in os.environ:
    made = Path(tempfile.mkdtemp(prefix="backupsched-tests-"))
    made.chmod(0o711)  # the server's own user passes through it
    os.environ["BACKUPSCHED_TEST_VAR"] = str(made)
# each process of xdist has a database of its own: with one directory for all of them, its workers would remove what
# those of other databases stage and note there
os.environ["BACKUPSCHED_VAR"] = str(
    Path(os.environ["BACKUPSCHED_TEST_VAR"]) / os.environ.get("PYTEST_XDIST_WORKER", "main")
)
# kept from run to run: a list of fonts takes seconds
os.environ.setdefault("MPLCONFIGDIR", str(Path(__file__).parents[1] / ".pytest_cache" / "matplotlib"))

from backupsched.settings import *  # noqa: F403
from backupsched.settings import WAKE

DATABASES = databases(os.environ.get("DATABASE_URL"), Path(os.environ["BACKUPSCHED_TEST_VAR"]), pooled=WAKE == "poll")
SELF_BACKUP_TO = "none"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
# else each test's client looks at all static files before its first request, a tenth of what a page costs here
WHITENOISE_AUTOREFRESH = True
# three statements for each login and one for each request, which are Django's
SESSION_ENGINE = "django.contrib.sessions.backends.cache"
