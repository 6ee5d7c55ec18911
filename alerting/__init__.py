"""Alerts: findings that need an operator, and the routes by which operators hear of them.

watching      the findings that are alerts, and the kinds of these
alert_rows    sources and workers that need an operator, as one statement
raising       raises alerts and ends them; announcements: messages to routes, in quiet hours later, in groups
messages      the words of a message; urls: where one may go
sending       delivers messages, each by a separate process of Apprise
rounds        all of these, once a minute
"""
