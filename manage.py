#!/usr/bin/env python
"""Run a management command: `python manage.py help` lists them."""

import sys

from backupsched.command_line import main

if __name__ == "__main__":
    sys.exit(main())
