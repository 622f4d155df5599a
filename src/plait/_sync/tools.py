"""Generated from src/plait/_async/tools.py by tools/unasync.py: edit that file. The tools that a model is given for its context: what each does, and the shapes that SDKs take."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

from plait._sync.blocks import Blocks, Entry, ask, stale
from plait.errors import PlaitError, UsageError
from plait.logic import arguments, documents, keys, prompt, providers, tooling
from plait.logic.documents import Document
from plait.logic.tooling import ToolError
from plait.model import Json, Value
from plait.pauses import aside, call

if TYPE_CHECKING:
    from plait._sync.documents import Documents
    from plait._sync.prompting import Prompt
    from plait._sync.sessions import Sessions

log = logging.getLogger("plait")
HITS: Final = 10
BY_MODEL: Final = "set_context"
LARGE: Final = 1 << 16
Work = Callable[[Mapping[str, Any]], Awaitable[str] | str]


class Tool:
    """A tool that a model may call: `name`, `description` and `schema`, the JSON schema of its arguments.

    Calling it never raises on what a model passes, or on what fails below: the answer then begins
    with `Error:`, for the model to read.
    """

    def __init__(self, name: str, description: str, schema: Json, work: Work) -> None:
        self.name = arguments.text("name", name)
        self.description = arguments.text("description", description)
        self.schema = dict(arguments.mapping("schema", schema))
        self._work = arguments.function("work", work)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    def call(self, arguments: Mapping[str, Any] | str | None = None) -> str:
        """Do it with the arguments that a model gave, an object or its JSON text; answers what the model is to read."""
        try:
            answer: str = call(self._work, tooling.read_arguments(arguments))
        except (ToolError, PlaitError) as error:
            answer = f"{documents.FAILED} {error}"
        except Exception as error:
            log.warning("tool %s failed: %r", self.name, error, exc_info=error)
            answer = f"{documents.FAILED} {type(error).__name__}: {error}"
        return prompt.sendable(answer)

    def __call__(self, /, **arguments: Any) -> str:
        """The same with the arguments by name."""
        return self.call(arguments)

    def to_openai(self, *, api: Literal["chat", "responses"] = "chat") -> Json:
        """The tool as OpenAI's Chat Completions take it, or with `api="responses"` its Responses."""
        body: Json = {"name": self.name, "description": self.description, "parameters": self.schema}
        if arguments.word("api", api, ("chat", "responses")) == "chat":
            return {"type": "function", "function": body}
        return {"type": "function", **body, "strict": False}

    def to_anthropic(self) -> Json:
        """The tool as Anthropic's Messages take it."""
        return {"name": self.name, "description": self.description, "input_schema": self.schema}

    def to_mcp(self) -> Json:
        """The tool as an MCP server lists it."""
        return {"name": self.name, "description": self.description, "inputSchema": self.schema}


class Toolbox:
    """What a session's tools do."""

    def __init__(self, declared: Blocks, loaded: Documents, shown: Prompt) -> None:
        self._blocks = declared
        self._documents = loaded
        self._prompt = shown

    def tools(self) -> list[Tool]:
        """The tools for what the blocks can do now; none if a model can do nothing with them."""
        entries = self._blocks.entries()
        tools = self._writing([entry for entry in entries if entry.writable])
        tools += self._searching([entry for entry in entries if entry.searchable])
        tools += self._loading([entry for entry in entries if entry.skill])
        tools += self._activating([entry for entry in entries if providers.is_agent_skills(entry.provider)])
        return tools

    # -- set_context -----------------------------------------------------------

    def _writing(self, entries: Sequence[Entry]) -> list[Tool]:
        if not entries:
            return []
        description = tooling.set_description((entry.spec, _kind(entry)) for entry in entries)
        schema = tooling.set_schema(_labels(entries), any(entry.keyed for entry in entries))
        return [Tool(tooling.SET, description, schema, self._set)]

    def _set(self, given: Mapping[str, Any]) -> str:
        entry = self._entry(given, lambda entry: entry.writable)
        content = tooling.needed(given, "content")
        if entry.keyed:
            return self._put(entry, content, tooling.fields(given, "metadata"))
        if tooling.text(given, "action", needed=False) == "append":
            block = self._blocks.add(entry, content, metadata=self._by_model)
        else:
            block = self._blocks.change(
                entry, lambda _: content, metadata=self._by_model, check=lambda value: self._check_seen(entry, value)
            )
            entry.seen = block.version
        return tooling.written(entry.spec.label, block.tokens, entry.spec.max_tokens)

    def _put(self, entry: Entry, content: str, about: Mapping[str, Any]) -> str:
        title = tooling.text(about, "title", needed=False)
        description = tooling.text(about, "description", needed=False)
        key = keyed(content, title)
        self._blocks.make_ready(entry)
        call(entry.provider.set, key, content, description)
        return tooling.indexed(key, entry.spec.label)

    def _by_model(self, before: Value) -> Json:
        """What is noted with a write of the model's."""
        return {"by": BY_MODEL, "session": self._blocks.place.ref.id, "since": self._own_since(before)}

    def _own_since(self, value: Value) -> int:
        """The version after which, up to this one, all are this model's own writes, which stand in its conversation."""
        noted = value.metadata
        if noted.get("by") != BY_MODEL or noted.get("session") != self._blocks.place.ref.id:
            return value.version
        since = noted.get("since")
        return since if isinstance(since, int) else value.version - 1

    def _check_seen(self, entry: Entry, value: Value) -> None:
        """Refuse to replace what somebody else wrote since this model was shown the block, and show it that.

        Where nobody knows what it was shown, for no prompt was frozen or it is in a store of the
        user's own that another handle filled, the last writer wins.
        """
        since, seen = self._own_since(value), entry.seen
        if seen is None or since > seen:
            seen = self._prompt.seen(entry)
        if seen is None or since <= seen:
            return
        self._prompt.show({entry.spec.label: value.version})
        raise stale(value, "is not what you were shown")

    # -- search_context --------------------------------------------------------

    def _searching(self, entries: Sequence[Entry]) -> list[Tool]:
        if not entries:
            return []
        description = tooling.search_description(entry.spec for entry in entries)
        properties = {
            "label": tooling.choice(_labels(entries), "The block to search"),
            "query": tooling.string("The words to look for"),
        }
        return [Tool(tooling.SEARCH, description, tooling.schema(properties, properties), self._search)]

    def _search(self, given: Mapping[str, Any]) -> str:
        entry = self._entry(given, lambda entry: entry.searchable)
        query = tooling.needed(given, "query")
        self._blocks.make_ready(entry)
        found = ask(entry.provider.search, query)
        return tooling.NOTHING_FOUND if found is None else found

    # -- load_context, unload_context --------------------------------------------

    def _loading(self, entries: Sequence[Entry]) -> list[Tool]:
        if not entries:
            return []
        properties = {
            "label": tooling.choice(_labels(entries), "The block that lists the document"),
            "key": tooling.string("The document's key"),
        }
        schema = tooling.schema(properties, properties)
        labels = _labels(entries)  # a conversation may name others
        loaded = tooling.unload_description(one for one in self._documents.loaded() if one.label in labels)
        return [
            Tool(documents.LOAD, tooling.load_description(entry.spec for entry in entries), schema, self._load),
            Tool(documents.UNLOAD, loaded, schema, self._unload),
        ]

    def _load(self, given: Mapping[str, Any]) -> str:
        entry = self._entry(given, lambda entry: entry.skill)
        key = tooling.needed(given, "key")
        self._blocks.make_ready(entry)
        found = ask(entry.provider.load, key)
        if found is None:
            return documents.not_found(key)
        self._documents.load(Document(entry.spec.label, key))
        return documents.told(key, found)

    def _unload(self, given: Mapping[str, Any]) -> str:
        entry = self._entry(given, lambda entry: entry.skill)
        document = Document(entry.spec.label, tooling.needed(given, "key"))
        if not self._documents.unload(document):
            return tooling.not_loaded(document)
        return documents.unloaded(document.key)

    # -- activate_skill, read_skill_resource -------------------------------------

    def _activating(self, entries: Sequence[Entry]) -> list[Tool]:
        names = list(self._skills(entries))
        if not names:
            return []
        activate = {"name": tooling.choice(names, "The skill")}
        read = {
            "name": tooling.choice(names, "The skill; without it, path begins with its name"),
            "path": tooling.string("The file, as the activated skill lists it"),
        }
        return [
            Tool(
                tooling.ACTIVATE,
                "Activate a skill before you proceed with a task that it fits: answers its instructions.",
                tooling.schema(activate, activate),
                self._activate,
            ),
            Tool(
                tooling.RESOURCE,
                "Read a file that belongs to a skill.",
                tooling.schema(read, ("path",)),
                self._resource,
            ),
        ]

    def _skills(self, entries: Sequence[Entry] | None = None) -> dict[str, Entry]:
        """The skills that there are, each with the block it is of; the first block with a name has it."""
        found: dict[str, Entry] = {}
        for entry in self._blocks.entries() if entries is None else entries:
            if providers.is_agent_skills(entry.provider):
                for name in self._names(entry):
                    found.setdefault(name, entry)
        return found

    def _names(self, entry: Entry) -> list[str]:
        """The skills of one block; none, and a warning, of one that cannot say: the others still have theirs."""
        try:
            self._blocks.make_ready(entry)
            names: Any = call(entry.provider.skill_names)
            kind = type(names).__name__
            found: list[Any] = [*names] if isinstance(names, list | tuple) else [None]
            if all(isinstance(name, str) for name in found):
                return found
            raise UsageError(f"skill_names answered {kind}; it answers a list of names")
        except Exception as error:
            log.warning("block %r: its skills cannot be listed: %r", entry.spec.label, error, exc_info=error)
            return []

    def _activate(self, given: Mapping[str, Any]) -> str:
        name, skills = tooling.needed(given, "name"), self._skills()
        tooling.one_of(name, list(skills), "skill")
        found = ask(skills[name].provider.activate, name)
        if found is None:
            raise ToolError(f"skill {name!r} is not there any more")
        return found

    def _resource(self, given: Mapping[str, Any]) -> str:
        name, path = tooling.text(given, "name", needed=False), tooling.needed(given, "path")
        skills = self._skills()
        tooling.one_of(path.partition("/")[0] if name is None else name, list(skills), "skill")
        entry = skills[path.partition("/")[0] if name is None else name]
        found = ask(entry.provider.read_resource, name, path)
        if found is None:
            raise ToolError(f"there is no file {path!r} in this skill")
        return found

    def _entry(self, given: Mapping[str, Any], fits: Callable[[Entry], bool]) -> Entry:
        """The block that a call names, among those that fit."""
        label = tooling.needed(given, "label")
        fitting = {entry.spec.label: entry for entry in self._blocks.entries() if fits(entry)}
        tooling.one_of(label, list(fitting), "label")
        return fitting[label]


def keyed(content: str, title: str | None) -> str:
    """The key of an entry; that of a long text is made beside the event loop."""
    if len(content) < LARGE:
        return keys.entry_key(content, title)
    return aside(lambda: keys.entry_key(content, title))


def _labels(entries: Sequence[Entry]) -> list[str]:
    return [entry.spec.label for entry in entries]


def _kind(entry: Entry) -> str:
    if entry.searchable:
        return "searchable, holds entries under keys"
    return "documents under keys" if entry.skill else "writable"


def session_tools(sessions: Sessions) -> list[Tool]:
    """The tool that searches all sessions of a scope."""

    def search(given: Mapping[str, Any]) -> str:
        hits = sessions.search(tooling.needed(given, "query"), limit=HITS)
        return tooling.hits_text(hits) or tooling.NOTHING_FOUND

    properties = {"query": tooling.string("The words to look for")}
    about = "Search all earlier conversations for messages that hold all the words of a query."
    return [Tool(tooling.SESSION_SEARCH, about, tooling.schema(properties, properties), search)]
