"""The desk of the sources: how operators see the fleet and edit it.

admin              pages
management         commands
files              fleet files
edits              how policies and sources are edited, and what follows
repository_edits   how repositories are edited
duplicates         sources that are likely to be one
status, reasons    how sources and assignments are, and why
conditions         conditions of sources and repositories; assignment_findings: findings of assignments
"""
