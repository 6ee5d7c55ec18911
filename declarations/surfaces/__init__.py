"""The kit of which a form, a list, a page, a command or an API answer is made from a declaration. Knows no resource.

admin      forms, lists and questions of Django's admin
commands   verbs, options and refusals of manage.py
web        what admin and API share: permissions, the history of who did what, refused requests
finding    how a condition of `manage.py doctor` is declared
"""
