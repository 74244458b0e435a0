"""Reasons for the end of a connection, in the words of `/connz` and the disconnect event."""

from enum import StrEnum


class CloseReason(StrEnum):
    CLIENT_CLOSED = "Client Closed"
    AUTHENTICATION_TIMEOUT = "Authentication Timeout"
    AUTHENTICATION_FAILURE = "Authentication Failure"
    TLS_HANDSHAKE_FAILURE = "TLS Handshake Failure"
    SLOW_CONSUMER_PENDING_BYTES = "Slow Consumer (Pending Bytes)"
    SLOW_CONSUMER_WRITE_DEADLINE = "Slow Consumer (Write Deadline)"
    WRITE_ERROR = "Write Error"
    READ_ERROR = "Read Error"
    PARSE_ERROR = "Parse Error"
    STALE_CONNECTION = "Stale Connection"
    PROTOCOL_VIOLATION = "Protocol Violation"
    BAD_CLIENT_PROTOCOL_VERSION = "Bad Client Protocol Version"
    MAX_CONNECTIONS_EXCEEDED = "Maximum Connections Exceeded"
    MAX_ACCOUNT_CONNECTIONS_EXCEEDED = "Maximum Account Connections Exceeded"
    MAX_PAYLOAD_EXCEEDED = "Maximum Message Payload Exceeded"
    MAX_CONTROL_LINE_EXCEEDED = "Maximum Control Line Exceeded"
    MAX_SUBSCRIPTIONS_EXCEEDED = "Maximum Subscriptions Exceeded"
    SERVER_SHUTDOWN = "Server Shutdown"
    WRONG_PORT = "Incorrect Port"
    DUPLICATE_LEAF = "Duplicate Remote LeafNode Connection"
    CLUSTER_NAMES_IDENTICAL = "Cluster Names Identical"
    MINIMUM_VERSION_REQUIRED = "Minimum Version Required"
    MISSING_ACCOUNT = "Missing Account"
    NO_RESPONDERS_REQUIRES_HEADERS = "No Responders Requires Headers"
    AUTHENTICATION_EXPIRED = "Authentication Expired"
    CREDENTIALS_REVOKED = "Credentials Revoked"
    KICKED = "Kicked"
    INTERNAL_ERROR = "Internal Error"  # ours alone: a defect, which the log tells
