"""Formats of dates and times on pages: `FORMAT_MODULE_PATH`."""
