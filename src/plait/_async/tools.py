"""The tools that a model is given for its context: what each does, and the shapes that SDKs take."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

from plait._async.blocks import AsyncBlocks, Entry, ask, stale
from plait.errors import PlaitError, UsageError
from plait.logic import arguments, documents, keys, prompt, providers, tooling
from plait.logic.documents import Document
from plait.logic.tooling import ToolError
from plait.model import Json, Value
from plait.pauses import aside_async, call_async

if TYPE_CHECKING:
    from plait._async.documents import AsyncDocuments
    from plait._async.prompting import AsyncPrompt
    from plait._async.sessions import AsyncSessions

log = logging.getLogger("plait")
HITS: Final = 10
BY_MODEL: Final = "set_context"
LARGE: Final = 1 << 16
Work = Callable[[Mapping[str, Any]], Awaitable[str] | str]


class AsyncTool:
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

    async def call(self, arguments: Mapping[str, Any] | str | None = None) -> str:
        """Do it with the arguments that a model gave, an object or its JSON text; answers what the model is to read."""
        try:
            answer: str = await call_async(self._work, tooling.read_arguments(arguments))
        except (ToolError, PlaitError) as error:
            answer = f"{documents.FAILED} {error}"
        except Exception as error:
            log.warning("tool %s failed: %r", self.name, error, exc_info=error)
            answer = f"{documents.FAILED} {type(error).__name__}: {error}"
        return prompt.sendable(answer)

    async def __call__(self, /, **arguments: Any) -> str:
        """The same with the arguments by name."""
        return await self.call(arguments)

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


class AsyncToolbox:
    """What a session's tools do."""

    def __init__(self, declared: AsyncBlocks, loaded: AsyncDocuments, shown: AsyncPrompt) -> None:
        self._blocks = declared
        self._documents = loaded
        self._prompt = shown

    async def tools(self) -> list[AsyncTool]:
        """The tools for what the blocks can do now; none if a model can do nothing with them."""
        entries = self._blocks.entries()
        tools = self._writing([entry for entry in entries if entry.writable])
        tools += self._searching([entry for entry in entries if entry.searchable])
        tools += await self._loading([entry for entry in entries if entry.skill])
        tools += await self._activating([entry for entry in entries if providers.is_agent_skills(entry.provider)])
        return tools

    # -- set_context -----------------------------------------------------------

    def _writing(self, entries: Sequence[Entry]) -> list[AsyncTool]:
        if not entries:
            return []
        description = tooling.set_description((entry.spec, _kind(entry)) for entry in entries)
        schema = tooling.set_schema(_labels(entries), any(entry.keyed for entry in entries))
        return [AsyncTool(tooling.SET, description, schema, self._set)]

    async def _set(self, given: Mapping[str, Any]) -> str:
        entry = self._entry(given, lambda entry: entry.writable)
        content = tooling.needed(given, "content")
        if entry.keyed:
            return await self._put(entry, content, tooling.fields(given, "metadata"))
        if tooling.text(given, "action", needed=False) == "append":
            block = await self._blocks.add(entry, content, metadata=self._by_model)
        else:
            block = await self._blocks.change(
                entry, lambda _: content, metadata=self._by_model, check=lambda value: self._check_seen(entry, value)
            )
            entry.seen = block.version
        return tooling.written(entry.spec.label, block.tokens, entry.spec.max_tokens)

    async def _put(self, entry: Entry, content: str, about: Mapping[str, Any]) -> str:
        title = tooling.text(about, "title", needed=False)
        description = tooling.text(about, "description", needed=False)
        key = await keyed(content, title)
        await self._blocks.make_ready(entry)
        await call_async(entry.provider.set, key, content, description)
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

    async def _check_seen(self, entry: Entry, value: Value) -> None:
        """Refuse to replace what somebody else wrote since this model was shown the block, and show it that.

        Where nobody knows what it was shown, for no prompt was frozen or it is in a store of the
        user's own that another handle filled, the last writer wins.
        """
        since, seen = self._own_since(value), entry.seen
        if seen is None or since > seen:
            seen = await self._prompt.seen(entry)
        if seen is None or since <= seen:
            return
        await self._prompt.show({entry.spec.label: value.version})
        raise stale(value, "is not what you were shown")

    # -- search_context --------------------------------------------------------

    def _searching(self, entries: Sequence[Entry]) -> list[AsyncTool]:
        if not entries:
            return []
        description = tooling.search_description(entry.spec for entry in entries)
        properties = {
            "label": tooling.choice(_labels(entries), "The block to search"),
            "query": tooling.string("The words to look for"),
        }
        return [AsyncTool(tooling.SEARCH, description, tooling.schema(properties, properties), self._search)]

    async def _search(self, given: Mapping[str, Any]) -> str:
        entry = self._entry(given, lambda entry: entry.searchable)
        query = tooling.needed(given, "query")
        await self._blocks.make_ready(entry)
        found = await ask(entry.provider.search, query)
        return tooling.NOTHING_FOUND if found is None else found

    # -- load_context, unload_context --------------------------------------------

    async def _loading(self, entries: Sequence[Entry]) -> list[AsyncTool]:
        if not entries:
            return []
        properties = {
            "label": tooling.choice(_labels(entries), "The block that lists the document"),
            "key": tooling.string("The document's key"),
        }
        schema = tooling.schema(properties, properties)
        labels = _labels(entries)  # a conversation may name others
        loaded = tooling.unload_description(one for one in await self._documents.loaded() if one.label in labels)
        return [
            AsyncTool(documents.LOAD, tooling.load_description(entry.spec for entry in entries), schema, self._load),
            AsyncTool(documents.UNLOAD, loaded, schema, self._unload),
        ]

    async def _load(self, given: Mapping[str, Any]) -> str:
        entry = self._entry(given, lambda entry: entry.skill)
        key = tooling.needed(given, "key")
        await self._blocks.make_ready(entry)
        found = await ask(entry.provider.load, key)
        if found is None:
            return documents.not_found(key)
        self._documents.load(Document(entry.spec.label, key))
        return documents.told(key, found)

    async def _unload(self, given: Mapping[str, Any]) -> str:
        entry = self._entry(given, lambda entry: entry.skill)
        document = Document(entry.spec.label, tooling.needed(given, "key"))
        if not await self._documents.unload(document):
            return tooling.not_loaded(document)
        return documents.unloaded(document.key)

    # -- activate_skill, read_skill_resource -------------------------------------

    async def _activating(self, entries: Sequence[Entry]) -> list[AsyncTool]:
        names = list(await self._skills(entries))
        if not names:
            return []
        activate = {"name": tooling.choice(names, "The skill")}
        read = {
            "name": tooling.choice(names, "The skill; without it, path begins with its name"),
            "path": tooling.string("The file, as the activated skill lists it"),
        }
        return [
            AsyncTool(
                tooling.ACTIVATE,
                "Activate a skill before you proceed with a task that it fits: answers its instructions.",
                tooling.schema(activate, activate),
                self._activate,
            ),
            AsyncTool(
                tooling.RESOURCE,
                "Read a file that belongs to a skill.",
                tooling.schema(read, ("path",)),
                self._resource,
            ),
        ]

    async def _skills(self, entries: Sequence[Entry] | None = None) -> dict[str, Entry]:
        """The skills that there are, each with the block it is of; the first block with a name has it."""
        found: dict[str, Entry] = {}
        for entry in self._blocks.entries() if entries is None else entries:
            if providers.is_agent_skills(entry.provider):
                for name in await self._names(entry):
                    found.setdefault(name, entry)
        return found

    async def _names(self, entry: Entry) -> list[str]:
        """The skills of one block; none, and a warning, of one that cannot say: the others still have theirs."""
        try:
            await self._blocks.make_ready(entry)
            names: Any = await call_async(entry.provider.skill_names)
            kind = type(names).__name__
            found: list[Any] = [*names] if isinstance(names, list | tuple) else [None]
            if all(isinstance(name, str) for name in found):
                return found
            raise UsageError(f"skill_names answered {kind}; it answers a list of names")
        except Exception as error:
            log.warning("block %r: its skills cannot be listed: %r", entry.spec.label, error, exc_info=error)
            return []

    async def _activate(self, given: Mapping[str, Any]) -> str:
        name, skills = tooling.needed(given, "name"), await self._skills()
        tooling.one_of(name, list(skills), "skill")
        found = await ask(skills[name].provider.activate, name)
        if found is None:
            raise ToolError(f"skill {name!r} is not there any more")
        return found

    async def _resource(self, given: Mapping[str, Any]) -> str:
        name, path = tooling.text(given, "name", needed=False), tooling.needed(given, "path")
        skills = await self._skills()
        tooling.one_of(path.partition("/")[0] if name is None else name, list(skills), "skill")
        entry = skills[path.partition("/")[0] if name is None else name]
        found = await ask(entry.provider.read_resource, name, path)
        if found is None:
            raise ToolError(f"there is no file {path!r} in this skill")
        return found

    def _entry(self, given: Mapping[str, Any], fits: Callable[[Entry], bool]) -> Entry:
        """The block that a call names, among those that fit."""
        label = tooling.needed(given, "label")
        fitting = {entry.spec.label: entry for entry in self._blocks.entries() if fits(entry)}
        tooling.one_of(label, list(fitting), "label")
        return fitting[label]


async def keyed(content: str, title: str | None) -> str:
    """The key of an entry; that of a long text is made beside the event loop."""
    if len(content) < LARGE:
        return keys.entry_key(content, title)
    return await aside_async(lambda: keys.entry_key(content, title))


def _labels(entries: Sequence[Entry]) -> list[str]:
    return [entry.spec.label for entry in entries]


def _kind(entry: Entry) -> str:
    if entry.searchable:
        return "searchable, holds entries under keys"
    return "documents under keys" if entry.skill else "writable"


def session_tools(sessions: AsyncSessions) -> list[AsyncTool]:
    """The tool that searches all sessions of a scope."""

    async def search(given: Mapping[str, Any]) -> str:
        hits = await sessions.search(tooling.needed(given, "query"), limit=HITS)
        return tooling.hits_text(hits) or tooling.NOTHING_FOUND

    properties = {"query": tooling.string("The words to look for")}
    about = "Search all earlier conversations for messages that hold all the words of a query."
    return [AsyncTool(tooling.SESSION_SEARCH, about, tooling.schema(properties, properties), search)]
