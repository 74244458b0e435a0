"""OpenTelemetry: spans and metrics of a server or a gateway, sent to a collector over OTLP.

``spans`` is what the rest of the program knows: a bounded queue that takes finished spans.  ``sender`` has
the thread that sends them; ``recording`` makes OpenTelemetry's spans, and ``measurements`` its metrics of the
text that `/metrics` answers.  Only these three import the packages of OpenTelemetry (extra `otel`), and only
in that thread.
"""
