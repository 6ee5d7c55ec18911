"""Who changed what a person declares: which row, how, when, and the values before and after, without secrets.

Triggers write it, in the transaction of the change, so that a form, the API, a command, a fleet file, a bulk edit and
`psql` are all seen, and what is rolled back is not. A program says who acts, in a setting of the transaction; without
that the entry names the role of the database, and the address that it came from.

tables     which tables are followed, and which of their columns: what a person edits, not what machines move
triggers   the trigger of each table, made after migrations
actors     who acts in this process or request, and how the database hears of it
entries    entries as facts and in words; notes of what no row shows, as *back up now*
"""
