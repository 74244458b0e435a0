"""A connection to any NATS server, with an event loop or without; both have the same methods.

    from millstream.link.options import LinkOptions, parse_servers

    from millstream.link.link import Link                     # with a loop
    async with Link(options) as link:
        link.publish("a.b", b"x", headers={"K": "v"})
        link.subscribe("a.>", deliver=take)                   # take([LinkMessage, …]) for each read
        async for message in link.subscribe("a.>"): …         # or a bounded buffer
        message = await link.request("help", b"?", timeout_s=1)
        fields = await link.api("STREAM.INFO.ORDERS")         # the answer as it came, a dict
        answer = await link.ask(STREAM_INFO, "ORDERS")        # the answer in its type (`verbs`)
        ack = await Publisher(link).publish(b"a.b", b"x")     # a window of publishes (`publisher`)
        await link.flush()

    from millstream.link.blocking_link import BlockingLink         # without
    with BlockingLink(options) as link:
        link.publish(…); link.request(…); link.api(…); link.ask(…); link.flush()
        sid = link.subscribe("a.>"); message = link.next_message(timeout_s=1)
        BlockingPublisher(link).publish(receipts, b"a.b", b"", b"x")

A `LinkMessage` has subject, payload, reply, status, headers (a dict) and block (the raw headers).  `errors`
has the errors.

    sans-IO       parser, deliveries, frames, publish_window, login, servers, requests, verbs,
                  dialogue
    with a loop   connection (one socket), outbox, subscriptions, calls, link, publisher
    without       socket_line (one socket), blocking_link, blocking_publisher

The sans-IO modules use neither sockets nor the loop.  Ordered reading is in `client`.
"""
