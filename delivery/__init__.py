"""Delivery: the way of a record of the kinds `http_callback` and `sqs_message` to its receiver.

models      endpoints and their signing secrets
endpoints   how endpoints are edited; declarations: what an endpoint may be
handlers    the kinds that deliver; events: their queue, and the document that each event is
targets     where a record goes, and with what
http, sqs   the two ways, by one client; blocking_calls: what blocks, next to its event loop
addresses   the addresses that may be spoken to at all
signing     of callbacks
extras      what to install for the libraries that not every installation has, here and above
"""
