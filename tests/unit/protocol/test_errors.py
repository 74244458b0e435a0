"""The texts of -ERR lines, spelled out: client libraries compare with them."""

from millstream.protocol import errors


def test_the_fixed_texts_are_the_references() -> None:
    texts = {name: text for name, text in vars(errors).items() if name.isupper() and isinstance(text, bytes)}
    assert texts == {
        "UNKNOWN_OPERATION": b"Unknown Protocol Operation",
        "LINE_TOO_LONG": b"maximum control line exceeded",
        "PAYLOAD_TOO_BIG": b"Maximum Payload Violation",
        "AUTHORIZATION_VIOLATION": b"Authorization Violation",
        "AUTHENTICATION_TIMEOUT": b"Authentication Timeout",
        "USER_EXPIRED": b"User Authentication Expired",
        "USER_REVOKED": b"User Authentication Revoked",
        "ACCOUNT_EXPIRED": b"Account Authentication Expired",
        "MAX_CONNECTIONS": b"maximum connections exceeded",
        "MAX_ACCOUNT_CONNECTIONS": b"maximum account active connections exceeded",
        "BAD_CLIENT_PROTOCOL": b"invalid client protocol",
        "NO_RESPONDERS_NEEDS_HEADERS": b"no responders requires headers support",
        "STALE_CONNECTION": b"Stale Connection",
        "TLS_REQUIRED": b"Secure Connection - TLS Required",
        "TLS_THROTTLED": b"Connection throttling is active. Please try again later.",
        "MAX_SUBSCRIPTIONS": b"maximum subscriptions exceeded",
        "INVALID_SUBJECT": b"Invalid Subject",
        "INVALID_PUBLISH_SUBJECT": b"Invalid Publish Subject",
    }


def test_texts_about_subjects_quote_them() -> None:
    assert errors.publish_violation(b"a.b") == b'Permissions Violation for Publish to "a.b"'
    assert errors.reply_violation(b"r") == b'Permissions Violation for Publish with Reply of "r"'
    assert errors.subscription_violation(b"a", None) == b'Permissions Violation for Subscription to "a"'
    assert (
        errors.subscription_violation(b"a", b"q")
        == b'Permissions Violation for Subscription to "a" using queue "q"'
    )
    assert (
        errors.too_many_tokens(b"a.b") == b'Permissions Violation for Subscription to "a.b", too many tokens'
    )
    assert (
        errors.subscription_revoked(b"a", None, b"9")
        == b'Permissions Violation for Subscription to "a" (sid "9")'
    )
    assert (
        errors.subscription_revoked(b"a", b"q", b"9")
        == b'Permissions Violation for Subscription to "a" using queue "q" (sid "9")'
    )
