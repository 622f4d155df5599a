"""Compaction under ADK: a summary by the agent's own model, or another, laid over the events that it says.

The events stay. What `get_session` gives then is one event in their place: by the agent that replied
last among them, so that the next turn goes to it, and with what they did to the state.
"""

from __future__ import annotations

import logging
import weakref
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Final

from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.registry import LLMRegistry
from google.adk.plugins.base_plugin import BasePlugin
from google.genai import types

from plait import AsyncSession, Change, Message, compact_function
from plait.adapters.adk.events import delta_of, events_of
from plait.store.forks import LOCK

log = logging.getLogger("plait")
EVENTS: Final = 256
"""How many summaries' events are kept at hand."""


@dataclass(frozen=True)
class Compaction:
    """When and how the session service compacts: once more than `tokens` would go to the model.

    `summary_model` makes the summaries; without one the agent's own model does, which `CompactionPlugin`
    tells the service of. Neither is given any tools, and what they use is added to the session's usage. `reserved_tokens` stand for what the service cannot
    see: instructions, tools, examples. The other arguments are those of `plait.compact_function`.
    """

    tokens: int
    summary_model: BaseLlm | str | None = None
    reserved_tokens: int = 0
    keep_recent_tokens: int = 20_000
    protect_head: int = 3
    min_tail: int = 2


class Compactor:
    """What a session service does about compaction; nothing if it was given none."""

    def __init__(self, compaction: Compaction | None, agent: str) -> None:
        self._compaction = compaction
        self._agent = agent
        self._models: weakref.WeakKeyDictionary[AsyncSession, BaseLlm] = weakref.WeakKeyDictionary()
        self._ready: weakref.WeakKeyDictionary[AsyncSession, list[Change]] = weakref.WeakKeyDictionary()
        self._events: OrderedDict[str, Event] = OrderedDict()
        self._warned = False

    def use_model(self, handle: AsyncSession, model: BaseLlm) -> None:
        """Have the summaries of a session made by the model of the agent that runs."""
        self._models[handle] = model

    def prepare(self, handle: AsyncSession) -> None:
        """Have a session compacted by its appends from now on, if it is to be."""
        asked = self._compaction
        if asked is None or handle in self._ready:
            return
        if asked.summary_model is None and handle not in self._models:
            if not self._warned:
                self._warned = True
                log.warning(
                    "session %r is not compacted: give Compaction a summary_model=, or the runner a CompactionPlugin, "
                    "which has the agent's own model make the summaries",
                    handle.id,
                )
            return
        with LOCK:  # a service may be used on the event loops of several threads
            if handle in self._ready:
                return
            changes = self._ready[handle] = []
        cancel = handle.subscribe(lambda change: changes.append(change) if change.kind == "compact" else None)
        weakref.finalize(handle, cancel)
        keep: dict[str, Any] = {
            "keep_recent_tokens": asked.keep_recent_tokens,
            "protect_head": asked.protect_head,
            "min_tail": asked.min_tail,
        }
        held = weakref.ref(handle)

        async def summarize(prompt: str) -> str:
            handle = held()
            return await summary(self._model(handle), prompt, handle)

        handle.on_compaction(compact_function(summarize, **keep))
        handle.compact_after(asked.tokens, prompt_tokens=asked.reserved_tokens)

    def changed(self, handle: AsyncSession) -> bool:
        """Whether the session was compacted here since this was asked last."""
        changes = self._ready.get(handle)
        if not changes:
            return False
        changes.clear()
        return True

    def _model(self, handle: AsyncSession | None) -> BaseLlm:
        model = self._compaction.summary_model if self._compaction is not None else None
        if model is None and handle is not None:
            model = self._models.get(handle)
        if isinstance(model, str):
            model = LLMRegistry.new_llm(model)
        assert model is not None
        return model

    async def summary_event(self, handle: AsyncSession, message: Message, leaf: str) -> Event:
        """The event that is read in the place of those that an overlay covers."""
        overlay = message.overlay
        assert overlay is not None
        event = self._events.pop(overlay.id, None)
        if event is None:
            event = await _summary_event(handle, message, leaf, self._agent)
        if not overlay.stale:
            self._events[overlay.id] = event
        while len(self._events) > EVENTS:
            self._events.popitem(last=False)
        return event.model_copy(deep=True)


async def _summary_event(handle: AsyncSession, message: Message, leaf: str, author: str) -> Event:
    overlay = message.overlay
    assert overlay is not None
    invocation, at = message.id, message.created_at.timestamp()
    delta: dict[str, Any] = {}
    artifacts: dict[str, int] = {}
    async for covered in handle.transcript(leaf, after_seq=overlay.from_seq - 1, before_seq=overlay.to_seq + 1):
        if not isinstance(covered, Message) or covered.format != "adk":
            continue
        (event,) = events_of(covered)
        delta.update(delta_of(covered))
        artifacts.update(event.actions.artifact_delta)
        at, invocation = event.timestamp, event.invocation_id
        if covered.role == "assistant":
            author = event.author
    return Event(
        id=message.id,
        invocation_id=invocation,
        author=author,
        timestamp=at,
        content=types.Content(role="model", parts=[types.Part(text=overlay.summary or "")]),
        actions=EventActions(state_delta=delta, artifact_delta=artifacts),
    )


async def summary(model: BaseLlm, prompt: str, handle: AsyncSession | None) -> str:
    """What a model answers to a prompt, without tools: its words, not its thoughts. What it used is the session's usage."""
    request = LlmRequest(model=model.model, contents=[types.Content(role="user", parts=[types.Part(text=prompt)])])
    words: list[str] = []
    used: types.GenerateContentResponseUsageMetadata | None = None
    async for response in model.generate_content_async(request, stream=False):
        used = response.usage_metadata or used
        for part in (response.content and response.content.parts) or ():
            if part.text and not part.thought:
                words.append(part.text)
    if used is not None and handle is not None:
        asked, said = used.prompt_token_count or 0, used.candidates_token_count or 0
        await handle.sessions.add_usage(handle.id, input_tokens=asked, output_tokens=said)
    return "".join(words)


class CompactionPlugin(BasePlugin):
    """Tells a session service with which model the agent runs, so that this makes the summaries.

    For the `plugins` of an app or runner whose session service was given a `Compaction` without a model.
    """

    def __init__(self, service: Any, *, name: str = "plait_compaction") -> None:
        super().__init__(name)
        self._service = service

    async def on_user_message_callback(
        self, *, invocation_context: InvocationContext, user_message: types.Content
    ) -> types.Content | None:
        """Note the model of the agent that is about to run."""
        self._note(invocation_context)
        return None

    async def before_agent_callback(self, *, agent: Any, callback_context: Any) -> types.Content | None:
        """Note the model of an agent that takes over."""
        self._note(callback_context._invocation_context, agent)
        return None

    def _note(self, invocation_context: InvocationContext, agent: Any = None) -> None:
        model = getattr(agent or invocation_context.agent, "canonical_model", None)
        if isinstance(model, BaseLlm):
            handle = self._service.handle(invocation_context.session)
            self._service.compactor.use_model(handle, model)
