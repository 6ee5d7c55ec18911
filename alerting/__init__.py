"""Alerts: what needs a person, and who hears of it.

conditions    what needs a person, as one statement
raising       raises alerts and ends them; announcing: tells routes, in quiet hours later, in groups
messages      what a message says; urls: where one may go
sending       a message on its way, by a process of Apprise (apart)
rounds        all of it, once a minute
"""
