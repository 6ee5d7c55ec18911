"""The desk of the sources: how operators see the fleet and edit it.

admin              pages
management         commands
files              fleet files
edits              edits of policies and sources, and their effects
repository_edits   edits of repositories
duplicates         sources that are likely to be one
status, reasons    the status of sources and assignments, and its reasons
conditions         conditions of sources and repositories; assignment_findings: findings of assignments
"""
