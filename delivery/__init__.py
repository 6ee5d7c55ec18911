"""Delivery: the way of a record of the kinds `http_callback` and `sqs_message` to its receiver.

models      endpoints and their signing secrets
endpoints   edits of endpoints; declarations: the values that an endpoint may have
handlers    the kinds that deliver; events: their queue, and the document that each event is
targets     the target of a record, and its credentials
http, sqs   the two ways, by one client; blocking_calls: what blocks, next to its event loop
addresses   the addresses to which deliveries may go
signing     of callbacks
extras      advice about optional libraries that are not installed, here and above
"""
