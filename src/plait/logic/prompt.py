"""The text of the system prompt: how blocks are rendered, and why nothing in a block can pass for structure."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable
from functools import lru_cache
from itertools import islice
from typing import Final

from plait.logic.normal import normalized
from plait.model import Block

RULE: Final = "\u2550" * 46
MARK: Final = "> "
"""What a line of a block begins with that would otherwise read as a rule or a header."""

TAGS: Final = ("searchable", "loadable", "readonly", "writable")
_TAG_LENGTH: Final = max(map(len, TAGS)) + 1
_ALIKE: Final = str.maketrans("01i", "oll")
"""What reads alike in many fonts."""
_FOLDED: Final = tuple(f"[{tag}".translate(_ALIKE) for tag in TAGS)
_NOT_DRAWING: Final = re.compile("[\\w\\s\x00-<>-\x7f]+")
"""All but what draws a rule: the equals sign, and signs beyond ASCII."""
_NOT_ASCII_SIGN: Final = re.compile("[^!-/:-<>-@\\[-`{-~]+")
_NOT_LETTER: Final = re.compile("[\\W_\u115f\u1160\u3164\uffa0]+")
_USAGE: Final = re.compile(r"%.*\btokens\b", re.IGNORECASE | re.DOTALL)
_RULE_LEAST: Final = 8
_RUN: Final = "=" * _RULE_LEAST
_TOGETHER: Final = re.compile(_NOT_LETTER.pattern[:-1] + f"{{{_RULE_LEAST}}}")
_LEAST: Final = 3
"""Of fewer characters no line is a rule or a header; of three it can be, for NFKC makes three of one."""
_MARKS: Final = re.compile(f"\\A(?:{MARK})+")
_BREAKS: Final = re.compile("(\r\n|[\n\r\x85\u2028\u2029])")
_CONTROLS: Final = {**{n: 0x2400 + n for n in range(0x20) if chr(n) not in "\t\n\r"}, 0x7F: 0x2421}
_BLANKS: Final = "\u115f\u1160\u2800\u3164\uffa0"
"""Letters and symbols that show nothing."""
_SELECTORS: Final = frozenset(
    map(chr, (0x34F, *range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)))
)
"""Marks that choose among the forms of a character, or join nothing."""
_INVISIBLE: Final = ("Cc", "Cf", "Cn", "Co", "Cs", "Me", "Mn", "Zl", "Zp", "Zs")

_SECTION: Final = re.compile(f"(?:\\A|\n\n)({RULE}\n[^\n]*\n{RULE}\n)")


def render(blocks: Iterable[Block], *, always: Collection[str] = ()) -> str:
    """The prompt of these blocks, in their order; `always` are labels that are rendered when empty, too."""
    return "\n\n".join(section(block) for block in blocks if is_shown(block) or block.label in always)


def is_shown(block: Block) -> bool:
    """Whether a block has a section: it says something, or a model can do something with it."""
    return bool(block.content) or block.writable or block.is_searchable or block.is_skill


def section(block: Block) -> str:
    """A block as it stands in the prompt."""
    return f"{RULE}\n{header(block)}\n{RULE}\n{defused(block.content)}"


def header(block: Block) -> str:
    """The line between a section's rules."""
    pieces = [block.label.upper()]
    if block.description:
        pieces.append(f"({one_line(block.description)})")
    if block.max_tokens:
        share = percent(block.tokens, block.max_tokens)
        pieces.append(f"[{share}% \u2014 {block.tokens}/{block.max_tokens} tokens]")
    return " ".join([*pieces, f"[{tag(block)}]"])


def percent(tokens: int, most: int) -> int:
    """How full a block is, rounded half up; more than 100 if it is over its limit."""
    return (200 * tokens + most) // (2 * most)


def tag(block: Block) -> str:
    """What a model can do with a block, in a word."""
    if block.is_searchable:
        return "searchable"
    if block.is_skill:
        return "loadable"
    return "writable" if block.writable else "readonly"


def sections(prompt: str) -> list[str]:
    """The sections of a rendered prompt, each as `section` made it."""
    starts = [found.start(1) for found in _SECTION.finditer(prompt)]
    ends = [*(start - 2 for start in starts[1:]), len(prompt)]
    return [prompt[start:end] for start, end in zip(starts, ends, strict=False)]


def section_header(text: str) -> str:
    """The header of a section."""
    return text.split("\n", 2)[1]


# -- what must not pass for structure ------------------------------------------


def defused(content: str) -> str:
    """`content` in which no line is a rule or a header: such a line is quoted, with `MARK` before it.

    So is one that is quoted already, which keeps the lines apart: `restored` undoes it. Control
    characters are shown as their pictures, and half surrogate pairs as their escapes, so that the
    prompt is text that every provider takes.
    """
    pieces = _BREAKS.split(printable(content))
    for n in range(0, len(pieces), 2):
        if _is_quotable(pieces[n]):
            pieces[n] = MARK + pieces[n]
    return "".join(pieces)


def restored(text: str) -> str:
    """What `defused` was given, control characters and half surrogate pairs aside."""
    pieces = _BREAKS.split(text)
    for n in range(0, len(pieces), 2):
        if pieces[n].startswith(MARK) and _is_quotable(pieces[n]):
            pieces[n] = pieces[n][len(MARK) :]
    return "".join(pieces)


def printable(text: str) -> str:
    """`text` with its control characters (but for tab and line ends) and half surrogates made visible."""
    return sendable(text.translate(_CONTROLS) if not text.isprintable() else text)


def one_line(text: str) -> str:
    """`text` as one line: runs of white space and line breaks are one space."""
    return printable(" ".join(text.split()))


def _is_quotable(line: str) -> bool:
    """Whether a line reads as structure, with whatever marks before it."""
    if len(line) < _LEAST:
        return False
    return _is_structure(_MARKS.sub("", line) if line.startswith(MARK) else line)


def _is_structure(line: str) -> bool:
    """Whether a line reads as a rule (mostly signs that draw one), or as a header (a tag at its end)."""
    if line.isascii():
        return _is_rule(line) or ("]" in line and _ends_with_tag(line))
    normal = normalized("NFKC", line)
    return _is_rule(normal) or (normal != line and _is_rule(line)) or _ends_with_tag(normal)


def _is_rule(line: str) -> bool:
    """Whether a line has enough signs that draw, and more signs than letters or so many of them in one run."""
    if 2 * max(line.count("="), line.count(RULE[0])) > len(line) >= 2 * _RULE_LEAST:
        return True
    drawing = "=" * line.count("=") if line.isascii() else _NOT_DRAWING.sub("", line)
    if len(drawing) < _RULE_LEAST:
        return False
    drawn = sum(n for sign, n in Counter(drawing).items() if _is_seen(sign))
    if drawn < _RULE_LEAST:
        return False
    signs = drawn + len(_NOT_ASCII_SIGN.sub("", line))
    return signs > len(_NOT_LETTER.sub("", line)) or _has_run(line)


def _has_run(line: str) -> bool:
    """Whether a rule's least stands together: signs that draw, with no letter or digit between them.

    However many letters stand beside a rule, it is seen as one.
    """
    if not _TOGETHER.search(line):
        return False
    kinds = {ord(char): _kind(char) for char in set(line)}
    return _RUN in line.translate(kinds)


@lru_cache(1 << 12)
def _kind(char: str) -> str:
    """What a character is in a run: one more that draws, the end of it, or nothing."""
    if not _NOT_DRAWING.match(char):
        return "=" if _is_seen(char) else ""
    return "" if _NOT_LETTER.match(char) else "a"


def _ends_with_tag(line: str) -> bool:
    """Whether the last word of a line is a tag in its brackets, whatever signs follow."""
    end = len(line)
    while end and not line[end - 1].isalnum():
        end -= 1
    if not _closes(next(filter(_is_seen, islice(line, end, None)), "")):
        return False
    return _opens_with_tag("".join(islice(filter(_is_of_tag, reversed(line[:end])), _TAG_LENGTH))[::-1])


def _opens_with_tag(word: str) -> bool:
    """Whether a text ends with a bracket and a tag."""
    if word.isascii():
        return word.lower().translate(_ALIKE).endswith(_FOLDED)
    return any(_opens(word[-len(tag) - 1 : -len(tag)]) and _reads_as(word[-len(tag) :], tag) for tag in TAGS)


def _reads_as(word: str, tag: str) -> bool:
    """Whether a word reads as a tag, some letters of which may be of another alphabet."""
    if len(word) != len(tag):
        return False
    own = False
    for char, wanted in zip(word, tag, strict=True):
        if char.lower()[:1].translate(_ALIKE) == wanted.translate(_ALIKE):
            own = True
        elif char.isascii():
            return False
        own = own or unicodedata.name(char, "").startswith("LATIN ")
    return own


def imitates(line: str) -> str | None:
    """What of a header a line holds, anywhere: a tag in a bracket, or how full a block is; `None` for neither."""
    seen = "".join(filter(_is_of_tag, normalized("NFKC", line)))
    for n, char in enumerate(seen):
        if _opens(char) and any(_reads_as(seen[n + 1 : n + 1 + len(tag)], tag) for tag in TAGS):
            return "a tag such as [writable]"
    if _USAGE.search(normalized("NFKC", line)):
        return "how full a block is"
    return None


def _opens(char: str) -> bool:
    return char == "[" or (not char.isascii() and unicodedata.category(char) in ("Ps", "Pi"))


def _closes(char: str) -> bool:
    return char == "]" or (not char.isascii() and unicodedata.category(char) in ("Pe", "Pf"))


def _is_of_tag(char: str) -> bool:
    """Whether a character is a letter, or a bracket before one."""
    if char.isascii():
        return char == "[" or char.isalnum()
    return (char.isalnum() and char not in _BLANKS) or _opens(char)


def is_blank(char: str) -> bool:
    """Whether a character takes no place of its own and changes no other: what two labels cannot differ in alone."""
    return char in _BLANKS or char in _SELECTORS or unicodedata.category(char) in ("Cf", "Cn", "Co")


def sendable(text: str) -> str:
    """`text` in which half surrogate pairs are their escapes: no provider takes them."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def _is_seen(char: str) -> bool:
    """Whether a character shows something."""
    if char.isascii():
        return char > " "
    return char not in _BLANKS and unicodedata.category(char) not in _INVISIBLE
