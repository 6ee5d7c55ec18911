"""The kit that makes a form, a list, a page, a command or an API answer from a declaration. Knows no resource.

admin      forms, lists and questions of Django's admin
commands   verbs, options and refusals of manage.py
web        shared by admin and API: permissions, the history of actions, refused requests
finding    the declaration of a condition of `manage.py doctor`
"""
