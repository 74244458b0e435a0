"""Quote untrusted text for log lines as Go's %q does, so that it stays on one line."""

from typing import Final

_ESCAPES: Final = {
    '"': '\\"', "\\": "\\\\", "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t",
    "\v": "\\v",
}  # fmt: skip


def quoted(text: str | bytes) -> str:
    """Return `text` in quotes with unprintable characters escaped; bytes that are not UTF-8 as `\\xff`."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "surrogateescape")
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return f'"{"".join(map(_shown, text))}"'


def _shown(character: str) -> str:
    if (escape := _ESCAPES.get(character)) is not None:
        return escape
    if character == " " or character.isprintable():
        return character
    number = ord(character)
    if number < 0x80:
        return f"\\x{number:02x}"
    if 0xDC80 <= number <= 0xDCFF:
        return f"\\x{number - 0xDC00:02x}"  # a byte that is not UTF-8
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
