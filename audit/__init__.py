"""Audit of declarations: which row was changed, by whom, how and when, and the values before and after, without
secrets.

Triggers write it, in the transaction of the change, so that a form, the API, a command, a fleet file, a bulk edit and
`psql` are all seen, and changes that are rolled back are not. A program names its actor in a setting of the
transaction; without it the entry names the database role, and the address that it came from.

tables     the tables that are followed, and their columns: those that users edit, not those that machines move
triggers   the trigger of each table, made after migrations
actors     the actor of this process or request, and how the database learns it
entries    entries as facts and as text; notes of actions that no row shows, such as *back up now*
"""
