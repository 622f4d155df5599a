"""What a block of context may be: its declaration, its size, and whether a write of it fits."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, TypeAlias, get_args

from msgspec import Struct

from plait import formats
from plait.errors import BlockTooLargeError, UsageError
from plait.logic import arguments, ids, prompt
from plait.logic.estimate import Counter, estimate_text, stamp
from plait.logic.normal import normalized
from plait.logic.providers import ContextProvider
from plait.logic.shape import is_mapping

BlockKind: TypeAlias = Literal["text", "collection", "documents"]
KINDS: Final[tuple[str, ...]] = get_args(BlockKind)
PROMPT_LABEL: Final = ids.RESERVED_PREFIX + "prompt"
"""Where the frozen prompt is kept, among the values of its session."""

_NO_LABEL: Final = "()[]<>{}\"'`"
"""Characters that a label cannot hold: what stands around labels in the prompt and in the tools' texts."""
_STEERING: Final = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
"""Characters that turn the direction of what follows them, also of what is not theirs."""
_MARKING: Final = "\u061c\u200e\u200f"
"""Marks of a direction: ordinary in text, and in a label seen by nobody."""


class BlockSpec(Struct, frozen=True):
    """A block as it is declared; see `Session.with_context` for what each field means."""

    label: str
    description: str | None = None
    max_tokens: int | None = None
    provider: ContextProvider | None = None
    kind: BlockKind = "text"
    shared: bool = False
    remind: bool = False


BlockLike: TypeAlias = str | BlockSpec | Mapping[str, Any]


def declared(given: object) -> BlockSpec:
    """The declaration of a block given as a label, a `BlockSpec` or a dict of its fields; `UsageError` if unfit."""
    if isinstance(given, BlockSpec):
        return checked(given)
    if isinstance(given, str):
        return checked(BlockSpec(given))
    if not is_mapping(given) or "label" not in given or set(given) - set(BlockSpec.__struct_fields__):
        fields = ", ".join(BlockSpec.__struct_fields__)
        raise arguments.refusal("context", f"labels, BlockSpecs or dicts of {fields} with a label", given)
    return checked(BlockSpec(**given))


def all_declared(given: object) -> list[BlockSpec]:
    """The declarations of several blocks, no label twice."""
    specs: list[BlockSpec] = []
    for item in arguments.items("context", given):
        spec = declared(item)
        check_apart(spec, specs)
        specs.append(spec)
    return specs


def checked(spec: BlockSpec) -> BlockSpec:
    """`spec`, if it is one that can be rendered and kept; `UsageError` says why not."""
    check_label(spec.label)
    if spec.description is not None:
        _check_description(spec.description)
    arguments.maybe(arguments.number, "max_tokens", spec.max_tokens)
    arguments.word("kind", spec.kind, KINDS)
    arguments.flag("shared", spec.shared)
    arguments.flag("remind", spec.remind)
    if spec.provider is not None:
        check_provider("provider", spec.provider, "get")
        if spec.kind != "text" or spec.shared:
            raise UsageError("kind and shared are for blocks that the store keeps; leave them out, or the provider")
    return spec


def check_provider(name: str, provider: object, *wanted: str) -> None:
    """Raise `UsageError` unless an object has these methods; a `dict` has a `get` that is something else."""
    if is_mapping(provider):
        raise arguments.refusal(name, f"an object with the methods {', '.join(wanted)}", provider)
    arguments.methods(name, provider, *wanted)


def check_label(label: object) -> str:
    """A label that cannot be taken for anything else where it stands; `UsageError` says why not."""
    label = ids.check_id(label, "label")
    if label.startswith(ids.RESERVED_PREFIX):
        raise UsageError(f"labels that begin with {ids.RESERVED_PREFIX!r} are reserved; choose another")
    if label != label.strip() or not _is_plain(label) or _has_brackets(label) or any(map(_MARKING.count, label)):
        raise UsageError(
            f"label must be one line without brackets, quotes, control characters or spaces at its ends, "
            f"not {arguments.shown(label)}: it stands in the header of the block"
        )
    if prompt.defused(label.upper()) != label.upper():
        raise UsageError(f"label {arguments.shown(label)} reads as a part of the prompt's structure; choose another")
    return label


def _has_brackets(label: str) -> bool:
    """Whether a label holds a bracket or quote of any width or alphabet."""
    normal = normalized("NFKC", label)
    return any(char in _NO_LABEL or unicodedata.category(char) in ("Ps", "Pe", "Pi", "Pf") for char in label + normal)


def _check_description(description: object) -> None:
    text = arguments.text("description", description)
    line = " ".join(text.split())
    if not _is_plain(line):
        raise UsageError("description must not hold control characters, nor any that turn the direction of a line")
    what = prompt.imitates(line) or (None if prompt.defused(line) == line else "a rule")
    if what is not None:
        raise UsageError(f"description must not hold what reads as {what}: it stands in the header")


def _is_plain(line: str) -> bool:
    """Whether a line holds nothing that ends it, controls a terminal or turns its direction."""
    return not any(char in _STEERING or unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") for char in line)


def check_apart(spec: BlockSpec, others: Iterable[BlockSpec]) -> None:
    """Raise `UsageError` if another block's header would read the same: labels differ in more than case."""
    for other in others:
        if _folded(other.label) == _folded(spec.label):
            raise UsageError(f"there is a block {other.label!r} already: {spec.label!r} would have the same header")


def _folded(label: str) -> str:
    """What can be told apart of a header: not case, nor how wide a space is, nor what shows nothing."""
    seen = "".join(char for char in normalized("NFKC", label.upper()) if not prompt.is_blank(char))
    return " ".join(normalized("NFKC", seen.casefold()).split())


def check_key(key: object, what: str = "key") -> str:
    """A key that is one line, so that it cannot pass for a further line of a listing."""
    key = ids.check_id(key, what)
    if not _is_plain(key) or key != key.strip():
        raise UsageError(f"{what} must be one line without control characters or spaces at its ends, not {key[:60]!r}")
    return key


# -- size ----------------------------------------------------------------------


def count(text: str, counter: Counter | None) -> int:
    """The tokens of a text as a session counts them: as a system message, none for no text."""
    if not text:
        return 0
    if counter is None:
        return estimate_text(text)
    return stamp({"role": "system", "parts": [{"type": "text", "text": text}]}, formats.NATIVE, counter)


def check_fits(label: str, current: str, tokens: int, new_tokens: int, most: int | None) -> None:
    """Raise `BlockTooLargeError` if a write would leave more than `most` tokens and not less than before.

    A shrinking write always passes: a block that is over its limit can be brought back step by step.
    """
    if most is None or new_tokens <= most or new_tokens < tokens:
        return
    excess = new_tokens - most
    raise BlockTooLargeError(
        f"block {label!r} would hold {new_tokens} tokens, {excess} over its limit of {most}; it holds {tokens} now. "
        f"Nothing was written. Shorten what you write, or replace the block with something shorter. "
        f"Current content:\n{current}",
        label=label,
        tokens=new_tokens,
        max_tokens=most,
        excess=excess,
        current_tokens=tokens,
        content=current,
    )


def joined(content: str, more: str) -> str:
    """`content` with `more` after it, on a line of its own."""
    if not more:
        return content
    return content + ("\n" if content and not more.startswith("\n") else "") + more
