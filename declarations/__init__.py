"""What a person declares, once for every surface: a plain pydantic model a resource, with units, limits and words.

types       the types that declarations share
problems    what is wrong with values, by field, in words
service     how rows are edited as they are declared: the rules that need the database, and what follows from an edit

Retry policies and throttles are declared in operations/declarations.py: `jobs` needs no pydantic.

The API takes a declaration as its body and answers it; the fleet file is lists of them; commands take options from
it (operations/management/declared.py), forms of the admin their help texts and checks (operations/admin/declared.py).
"""
