"""The desk of the sources: what people see of the fleet, and how they edit it.

admin              pages
management         commands
files              fleet files
edits              how policies and sources are edited, and what follows
repository_edits   how repositories are edited
duplicates         sources that are likely to be one
status, reasons    how sources and assignments are, and why
doctor             conditions of `manage.py doctor`
"""
