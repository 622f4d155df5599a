"""The tools that a model is given: their names, schemas and texts, and how what it passes is read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from plait import jsontext
from plait.logic import prompt
from plait.logic.blocks import BlockSpec
from plait.logic.documents import Document
from plait.logic.shape import is_mapping
from plait.model import Hit, Json

SET: Final = "set_context"
SEARCH: Final = "search_context"
ACTIVATE: Final = "activate_skill"
RESOURCE: Final = "read_skill_resource"
SESSION_SEARCH: Final = "session_search"
NOTHING_FOUND: Final = "No results found."
LISTED: Final = 100
"""How many loaded documents a description names, the newest; any can be unloaded."""
LONGEST: Final = 1024
"""How much of a key a description repeats: a conversation says what it likes was loaded."""
SHOWN: Final = 60
"""How much of a wrong value is repeated to the model."""


_BRACKETS: Final = str.maketrans("[]", "()")


class ToolError(Exception):
    """What a tool answers when it cannot do what it was asked."""


# -- what a model passes -------------------------------------------------------


def read_arguments(given: object) -> Mapping[str, Any]:
    """The arguments of a call, given as an object or as its JSON text; `ToolError` if it is neither."""
    if given is None or given == "":
        return {}
    if isinstance(given, str | bytes):
        try:
            given = jsontext.decode(given)
        except (ValueError, RecursionError) as error:
            raise ToolError(f"the arguments are not JSON: {error}") from None
    if not is_mapping(given):
        raise ToolError(f"the arguments must be an object, not {kind_of(given)}")
    return given


def text(given: Mapping[str, Any], name: str, *, needed: bool = True) -> str | None:
    """An argument that is text; `ToolError` if it is something else, or missing though needed."""
    value = given.get(name)
    if isinstance(value, str):
        return value
    if value is not None:
        raise ToolError(f"{name} must be text, not {kind_of(value)}")
    if needed:
        raise ToolError(f"{name} is missing")
    return None


def needed(given: Mapping[str, Any], name: str) -> str:
    """An argument that must be there, and text."""
    found = text(given, name)
    assert found is not None
    return found


def fields(given: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """An argument that is an object, empty if it is missing."""
    value = given.get(name)
    if value is None:
        return {}
    if not is_mapping(value):
        raise ToolError(f"{name} must be an object, not {kind_of(value)}")
    return value


def one_of(value: str, known: Sequence[str], what: str) -> None:
    """Raise `ToolError` unless `value` is one of these."""
    if value not in known:
        names = ", ".join(known) or "none"
        raise ToolError(f"{what} {jsontext.encode(prompt.one_line(value[:SHOWN]))} is not one of: {names}")


def kind_of(value: object) -> str:
    """What a value is, in JSON's words."""
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | float):
        return "a number"
    if value is None:
        return "null"
    if isinstance(value, str):
        return "text"
    return "an object" if is_mapping(value) else "a list"


# -- what it is told -----------------------------------------------------------


def schema(properties: Json, required: Iterable[str]) -> Json:
    """The JSON schema of an object with these properties."""
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


def choice(values: Iterable[str], description: str) -> Json:
    """One of some strings."""
    return {"type": "string", "enum": list(values), "description": description}


def string(description: str) -> Json:
    """Any text."""
    return {"type": "string", "description": description}


def set_schema(labels: Sequence[str], keyed: bool) -> Json:
    """What `set_context` takes."""
    properties: Json = {
        "label": choice(labels, "The block to write to"),
        "content": string("The text to write"),
        "action": choice(("replace", "append"), "Replace what the block holds (the default), or add to it"),
    }
    if keyed:
        about = {
            "title": string("A short title; the same title updates the entry"),
            "description": string("What the entry is about, for the listing"),
        }
        properties["metadata"] = {
            "type": "object",
            "properties": about,
            "additionalProperties": False,
            "description": "For blocks that hold entries",
        }
    return schema(properties, ("label", "content"))


def set_description(blocks: Iterable[tuple[BlockSpec, str]]) -> str:
    """What `set_context` says of the blocks it writes to, each with its kind."""
    lines = [f"- {spec.label} ({kind}): {about(spec)}" for spec, kind in blocks]
    return "\n".join(
        ["Write to a block of your context. It stands in your system prompt from the next refresh on.", *lines]
    )


def about(spec: BlockSpec) -> str:
    """A block's description in one line."""
    return prompt.one_line(spec.description or "") or "no description"


def search_description(specs: Iterable[BlockSpec]) -> str:
    """What `search_context` says of the blocks it searches."""
    lines = [f"- {spec.label}: {about(spec)}" for spec in specs]
    return "\n".join(["Search a block of your context for entries that hold all the words of a query.", *lines])


def load_description(specs: Iterable[BlockSpec]) -> str:
    """What `load_context` says of the blocks it loads from."""
    lines = [f"- {spec.label}: {about(spec)}" for spec in specs]
    return "\n".join(["Load a document that a block of your context lists, by its key.", *lines])


def unload_description(loaded: Iterable[Document]) -> str:
    """What `unload_context` says, with the documents that are loaded now."""
    found = [f"{document.label}: {_cut(document.key)}" for document in loaded]
    names = ", ".join(found[-LISTED:]) or "none"
    names += f", and {len(found) - LISTED} more" if len(found) > LISTED else ""
    return f"Take a loaded document out of the conversation when it is not needed any more. Loaded now: {names}"


def written(label: str, tokens: int, most: int | None) -> str:
    """What a write of a block answers."""
    used = f"{prompt.percent(tokens, most)}% ({tokens}/{most} tokens)" if most else f"{tokens} tokens"
    return f"Written to {label}. Usage: {used}"


def indexed(key: str, label: str) -> str:
    """What a write of an entry answers."""
    return f'Indexed "{key}" in {label}.'


def hits_text(hits: Iterable[Hit]) -> str | None:
    """Each hit as `[role] snippet` on one line, so that no message can look like two; `None` for none.

    A role is a word of the writer's choice, and has no brackets here.
    """
    lines = (f"[{prompt.one_line(hit.role).translate(_BRACKETS)}] {prompt.one_line(hit.snippet)}" for hit in hits)
    return "\n---\n".join(lines) or None


def not_loaded(document: Document) -> str:
    """What unloading answers for a document that is not there."""
    return f'"{_cut(document.key)}" is not currently loaded in {document.label}.'


def _cut(key: str) -> str:
    """A key on one line; the beginning of one that no document can have."""
    return prompt.one_line(key if len(key) <= LONGEST else f"{key[:LONGEST]}…")
