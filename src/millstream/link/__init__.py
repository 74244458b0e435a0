"""One connection to any NATS server, with an event loop (`Link`) or without (`BlockingLink`), in the same words.

    from millstream.link.options import LinkOptions, parse_servers
    from millstream.link.link import Link                       from millstream.link.blocking import BlockingLink
    async with Link(options) as link:                           with BlockingLink(options) as link:
        link.publish("a.b", b"x", headers={"K": "v"})               link.publish("a.b", b"x", headers={"K": "v"})
        link.subscribe("a.>", deliver=take)                         sid = link.subscribe("a.>")
        async for m in link.subscribe("a.>"): …                     m = link.next_message(timeout_s=1)
        m = await link.request("help", b"?", timeout_s=1)           m = link.request("help", b"?", timeout_s=1)
        await link.api("STREAM.INFO.ORDERS")        # a dict        link.api("STREAM.INFO.ORDERS")
        await link.ask(STREAM_INFO, "ORDERS")       # typed         link.ask(STREAM_INFO, "ORDERS")
        await link.flush()                                          link.flush()
        ack = await Publisher(link).publish(b"a.b", b"x")           BlockingPublisher(link).publish(receipts, …)

A `Message` has subject, payload, reply, status, headers (a dict) and block (the headers as they came).  Errors
are in `errors`, the requests of the JetStream API in `verbs`.

    sans-IO     parser, deliveries, frames, headers, publishing, login, servers, requests, verbs, dialogue
    with a loop connection (one socket), outgoing, subscriptions, calls, link, publisher
    without     socket_line (one socket), blocking, blocking_publisher

The sans-IO modules know neither sockets nor the loop, so that a broker can use them for connections of its own.
Not here: ordered reading and everything else that is convenient (`client`).
"""
