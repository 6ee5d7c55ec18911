"""ISO dates, and times to the second, which say that they are UTC: backups are compared by them."""

DATE_FORMAT = SHORT_DATE_FORMAT = "Y-m-d"
TIME_FORMAT = "H:i:s"
DATETIME_FORMAT = SHORT_DATETIME_FORMAT = r"Y-m-d H:i:s \U\T\C"
