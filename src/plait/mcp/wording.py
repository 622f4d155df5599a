"""Text that MCP can carry: JSON in UTF-8 has no lone surrogates, and ids in addresses are percent-encoded."""

from __future__ import annotations

import urllib.parse


def sayable(text: str) -> str:
    """`text` with U+FFFD for each lone surrogate."""
    return text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def quoted(id: str) -> str:
    """An id as the last step of an address; `unquoted` turns it back."""
    return urllib.parse.quote(id, safe="", errors="surrogatepass").replace(".", "%2E")


def unquoted(step: str) -> str:
    """The id that `quoted` made this of; `ValueError` if it made none such."""
    return urllib.parse.unquote(step, errors="surrogatepass")
