"""Media taken out of a message's text: all of them, wherever they lie, and the text comes back to the letter."""

from __future__ import annotations

import base64
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from plait import jsontext
from plait.logic import media
from tests.dose import dose

PAYLOADS = [b"", b"x", bytes(range(256)), b"payload of some length"]
KINDS = ["image/png", "application/pdf", "text/plain", "TEXT/html", "image/png;charset=x", ""]
KEYS = ["url", "data", "mediaType", "media_type", "mimeType", "filename", "before", "after", "type"]


def spelled(data: bytes) -> str:
    return base64.b64encode(data).decode()


payloads = st.sampled_from(PAYLOADS).map(spelled)
urls = st.builds("data:{};base64,{}".format, st.sampled_from(KINDS), payloads)
words = st.sampled_from(
    ["data:", "data: a.png", "data:,x", "data:image/png;base64,%", "https://x", "plait-media:0:", *KINDS]
)
leaves = st.one_of(urls, urls, payloads, words, st.none(), st.just(7))
values = st.recursive(
    leaves,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(KEYS), inner, max_size=6)),
)


def taken_out(message: dict[str, Any]) -> tuple[str, list[bytes]]:
    """The text that is left of a message, and its payloads; holds that together they are the message."""
    marked, found = media.take_out(message, ("parts",))
    cut = media.cut_out(jsontext.encode(marked), found)
    assert cut is not None
    text, items = cut
    payloads = [item.data for item in items if item.data is not None]
    whole = media.inline(text, zip([item.at for item in items], payloads, strict=True))
    assert whole == jsontext.encode(message)
    assert media.hydrated_bytes(text, items) == len(whole.encode())
    return text, payloads


@given(parts=st.lists(values, max_size=3))
@settings(max_examples=dose(short=200, soak=5000), deadline=None)
def test_a_text_without_its_media_is_made_whole_again_and_holds_none_any_more(parts: list[Any]) -> None:
    message = {"id": "m", "role": "user", "parts": parts, "metadata": {"url": "data:image/png;base64,eA=="}}
    taken_out(message)
    marked, found = media.take_out(message, ("parts",))
    assert media.take_out(marked, ("parts",)) == (marked, [])
    assert {item.data for item in found} <= {*PAYLOADS}


def test_every_payload_of_a_part_is_taken_out() -> None:
    picture = f"data:image/png;base64,{spelled(b'one')}"
    part = {
        "type": "file",
        "filename": "data: plan.png",
        "mediaType": "image/png",
        "data": spelled(b"two"),
        "url": None,
        "before": picture,
        "deeper": [{"after": picture, "url": picture, "note": "data:text/plain;base64,eA=="}],
    }
    text, payloads = taken_out({"id": "m", "role": "user", "parts": [part]})
    assert sorted(payloads) == [b"one", b"one", b"one", b"two"]
    assert "data: plan.png" in text and "base64,eA==" in text and spelled(b"one") not in text
