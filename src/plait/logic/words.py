"""The words of a text: what the index is given, what a query asks for, and whether the one holds the other.

`fold` is one pass over the text before a stock tokenizer: accents and case go, and the scripts
that are written without spaces are split into single characters, each a word of its own. A
substring of such a script is then a phrase, of one character as of many; `docs/explanation/search.md`
has the measurements behind that choice.
"""

from __future__ import annotations

import codecs
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Final

from msgspec import Struct

from plait.logic.normal import normalized
from plait.logic.phrases import LONG_PHRASE, Phrases, Places, Token
from plait.logic.shape import is_object

Tokenize = Callable[[str], list[Token]]
"""The stock tokenizer of the index: from folded text to words."""

_HAN: Final = "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"
_KANA: Final = "\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3100-\u312f\u31a0-\u31bf\u31f0-\u31ff"
_HANGUL: Final = "\u1100-\u11ff\u3130-\u318f\ua960-\ua97c\uac00-\ud7a3\ud7b0-\ud7fb"
_THAI: Final = "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ebd\u0ec0-\u0ece"
_OTHERS: Final = "\u0f40-\u0fbc\u1000-\u103f\u1050-\u109e\u1780-\u17d3"
SPACELESS: Final = f"{_HAN}{_KANA}{_HANGUL}{_THAI}{_OTHERS}"
"""Characters of scripts written without spaces (or, as Korean, with endings joined on)."""

EMOJI: Final = "\u2190-\u2bff\U0001f000-\U0001fbff"
_MARKS: Final = (
    "\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc"
    "\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u1ab0-\u1aff\u1dc0-\u1dff\u200b-\u200f\u2060\ufe00-\ufe0f\ufeff"
)
_ACCENTS: Final = re.compile(f"[{_MARKS}]")
_SPLIT: Final = re.compile(f"[{SPACELESS}]+|[{EMOJI}]+|[\x00\ud800-\udfff]+")
_POINTS: Final = frozenset(
    map(chr, (*b"\xa0\xa1\xa7\xab\xb6\xb7\xbb\xbf", *range(0x2010, 0x2028), *range(0x2030, 0x205F)))
)
_FOREIGN: Final = re.compile(r"[^\x00-\x7f]+(?:[\x00-\x7f]{1,8}[^\x00-\x7f]+)*")
"""What has to be looked at closely; the rest of a text needs nothing, and is most of it in many languages."""

_EMOJI_FROM: Final = 0xF0000
"""The stock tokenizer takes no symbol for a word, but every private character: emoji are moved there."""

MOSTLY: Final = 1.25
"""With more bytes a character it is quicker to fold all of a text than what of it is not ASCII."""

ASKED: Final = 1000
"""The index is asked for so many words at once: it takes time for each, and for the square of the phrases."""

MOST_WORDS: Final = 1_000_000
"""How many words of a query are looked for, the first ones."""

_PIECES: Final = re.compile(r'"([^"]*)"|([^\s"]+)')


def fold(text: str) -> str:
    """`text` as the stock tokenizer is given it: without accents, split where no spaces are."""
    plain = unpointed(text)
    if not plain.isascii():
        mostly = len(plain.encode("utf-8", "replace")) > MOSTLY * len(plain)
        plain = _folded(plain) if mostly else _FOREIGN.sub(lambda run: _folded(run[0]), plain)
    return plain.replace("\x00", " ")


def has_words(text: str) -> bool:
    """Whether the stock tokenizer finds a word in `text`: it takes letters, numbers and what `fold` makes of emoji."""
    kinds = map(unicodedata.category, fold(text))
    return any(kind[0] in "LN" or kind in ("Co", "Mn", "Mc") for kind in kinds)


def unpointed(text: str) -> str:
    """The same with spaces for typographic punctuation if nothing else in it is not ASCII, as is often so."""
    if text.isascii():
        return text
    try:
        return text.encode("ascii", "plait.points").decode("ascii")
    except UnicodeEncodeError:
        return text


def _spaces(error: UnicodeError) -> tuple[str, int]:
    if isinstance(error, UnicodeEncodeError) and _POINTS.issuperset(error.object[error.start : error.end]):
        return " " * (error.end - error.start), error.end
    raise error


# The encoder passes over what is ASCII ten times as fast as a regular expression.
codecs.register_error("plait.points", _spaces)


def _folded(text: str) -> str:
    plain = _ACCENTS.sub("", normalized("NFKD", text.casefold()))
    return _SPLIT.sub(_split, normalized("NFKC", plain))


def _split(run: re.Match[str]) -> str:
    found = run[0]
    first = ord(found[0])
    if first == 0 or 0xD800 <= first <= 0xDFFF:
        return " "
    if 0x2190 <= first <= 0x2BFF or 0x1F000 <= first <= 0x1FBFF:
        found = "".join(chr(_EMOJI_FROM | ord(char) & 0xFFFF) for char in found)
    return f" {' '.join(found)} "


class Words(Struct, frozen=True, dict=True):
    """What a query asks for: phrases, each the words it is made of, all of which must be there.

    `matches` says the same, phrase for phrase, in the index's own language; or, if it is `loose`, the index
    is asked for less: for parts of long phrases, and of very many words for the first.
    """

    phrases: tuple[tuple[str, ...], ...]
    matches: tuple[str, ...]
    loose: bool = False

    def __bool__(self) -> bool:
        return bool(self.phrases)

    @cached_property
    def match(self) -> str:
        """What the index is asked for, as one expression of about `ASKED` words at most."""
        room, asked = ASKED, list[str]()
        for phrase, match in zip(self.phrases, self.matches, strict=True):
            room -= len(phrase)
            if room < 0 and asked:
                break
            asked.append(match)
        return " ".join(asked)

    @property
    def weighed(self) -> tuple[str, ...]:
        """Those of `matches` that a score is made of: the first `ASKED`."""
        return self.matches[:ASKED]

    @cached_property
    def sought(self) -> Phrases:
        """The phrases as they are looked for in texts."""
        return Phrases(self.phrases)


def parse(query: str, tokenize: Tokenize) -> Words:
    """The words of a query: those in `"quotes"` are one phrase, and so are the pieces of a word such as `POL-358`.

    Nothing in it is an operator, and nothing is refused; a query without a word asks for nothing, and one of
    more than `MOST_WORDS` for the first of them. What is said twice counts once.
    """
    phrases: dict[tuple[str, ...], str] = {}
    room = MOST_WORDS
    for piece in _PIECES.finditer(query):
        text = fold(piece[1] or piece[2] or "")
        tokens = tokenize(text)
        if len(tokens) > room:
            tokens = tokens[:room]
            text = text.encode("utf-8", "replace")[: tokens[-1][1]].decode()
        words = tuple([word for _, _, word in tokens])
        if words and words not in phrases:
            phrases[words] = " ".join(_quoted(text, tokens))
            room -= len(words)
        if not room:
            break
    loose = MOST_WORDS - room > ASKED or any(len(words) > LONG_PHRASE for words in phrases)
    return Words(tuple(phrases), tuple(phrases.values()), loose)


def _quoted(text: str, tokens: Sequence[Token]) -> list[str]:
    """A phrase as the index is asked for it, in parts if it is long."""
    if len(tokens) <= LONG_PHRASE:
        return ['"' + text.replace('"', " ") + '"']
    encoded = text.encode("utf-8", "replace")
    parts = [tokens[at : at + LONG_PHRASE] for at in range(0, min(len(tokens), ASKED), LONG_PHRASE)]
    texts = [encoded[part[0][0] : part[-1][1]].decode().replace('"', " ") for part in parts]
    return [f'"{part}"' for part in dict.fromkeys(texts)]


def occurrences(words: Words, tokens: Sequence[Token]) -> list[Places] | None:
    """Where each phrase stands, as (first, last) places among the tokens; `None` unless all are there.

    Of phrases of several words `phrases.MOST_PLACES` are told at most.
    """
    return words.sought.among(tokens)


def texts(parts: Iterable[object]) -> str:
    """The words of a message's parts: all text, one after the other; not reasoning, tools or media."""
    found = [part.get("text") for part in parts if is_object(part) and part.get("type") == "text"]
    return "\n".join(text for text in found if isinstance(text, str))


def weight(holding: int, total: int, here: int) -> float:
    """How much a word says, as FTS5 reckons it: `holding` of `total` texts in the index have it, and `here` beside it.

    A server only estimates how many there are, and may take them for fewer than those that have it.
    """
    return max(math.log((max(total - holding, 0) + 0.5) / (holding + here + 0.5)), 1e-6)
