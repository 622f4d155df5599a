"""What a session's handle has for its context: blocks, prompt, tools, and what it remembers of the last input."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from plait import jsontext
from plait._async import session as sessions_handle
from plait._async.blocks import AsyncBlocks
from plait._async.context import AsyncContext
from plait._async.documents import AsyncDocuments, goes_on
from plait._async.overlaying import real_parent
from plait._async.prompting import AsyncPrompt
from plait._async.stored import Place
from plait._async.tools import AsyncTool, AsyncToolbox
from plait.logic import arguments, prefix
from plait.logic.prefix import Lost, Seen, Stands
from plait.logic.shape import is_list
from plait.model import Appended, Overlay, Parent, PrefixReport
from plait.store.protocol import Path

if TYPE_CHECKING:
    from plait._async.session import AsyncSession


class AsyncConversing:
    """All of it, made when a handle is first asked for any."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session
        place = Place(
            session._store,  # pyright: ignore[reportPrivateUsage]
            session._ref,  # pyright: ignore[reportPrivateUsage]
            lambda: session._rules.counter,  # pyright: ignore[reportPrivateUsage]
            session._tell,  # pyright: ignore[reportPrivateUsage]
            sessions_handle.now_us,
            sessions_handle.new_id,
        )
        self.blocks = AsyncBlocks(place)
        self.context = AsyncContext(self.blocks)
        self.prompt = AsyncPrompt(self.blocks)
        self.documents = AsyncDocuments(session)
        self.toolbox = AsyncToolbox(self.blocks, self.documents, self.prompt)
        self._seen: Seen | None = None

    def set_up_as(self, other: AsyncConversing) -> None:
        """Have the blocks and the prompt that another handle of the session has."""
        for entry in other.blocks.entries():
            self.blocks.declare(entry.spec).seen = entry.seen
        self.prompt.set_up_as(other.prompt)

    async def appended(self, results: Iterable[Appended]) -> None:
        """Messages were appended."""
        if any(entry.skill for entry in self.blocks.entries()):
            await self.documents.appended(results)

    def cleared(self) -> None:
        """The session was cleared."""
        self.documents.forget()

    async def prefix_report(self, tools: object, leaf: Parent, for_model: bool, since: str | None) -> PrefixReport:
        """Compare the input of now with the one remembered, or with a mark's, and remember it."""
        before = self._seen if since is None else prefix.read_mark(since)
        given = None if tools is None else _tools_text(tools)
        history = self._session.history(leaf, for_model=for_model)
        pieces = [piece async for message in history if (piece := prefix.piece_of(message)) is not None]
        now = prefix.seen(given, await self.prompt.stored(), pieces)
        self._seen = now
        laid, lost = await self._laid(leaf), prefix.lost(before, now)
        stands = None if lost is None else await self._stands(lost, laid, leaf)
        return prefix.compare(before, now, [(one.from_seq, one.to_seq) for one in laid if one.summary is None], stands)

    async def _stands(self, lost: Lost, laid: Sequence[Overlay], leaf: Parent) -> Stands:
        """Whether what stood at a place is on this path, on another branch, or nowhere.

        Under an overlay that the branch which was left cannot have had, it is as good as on that branch,
        and so is a missing result where the conversation does not go on from its end.
        """
        path, at = await self._path_to(leaf), await self._path_to(lost.id)
        if at is None:
            return "gone"
        if path is None or not goes_on(at, path):
            return "elsewhere"
        over = [one for one in laid if one.from_seq <= lost.seq <= one.to_seq]
        before = await self._path_to(lost.last) if over or lost.made else None
        if before is None or goes_on(before, path):
            return "here"
        ends = [await self._path_to(one.to_id) for one in over]
        return "here" if ends and all(end is not None and goes_on(end, before) for end in ends) else "elsewhere"

    async def _path_to(self, leaf: Parent) -> Path | None:
        """The path to a message, or to the end of what an overlay shows; `None` if it is not there."""
        store, ref = self._session._store, self._session._ref  # pyright: ignore[reportPrivateUsage]
        found = await store.path(ref, await real_parent(store, ref, leaf) if isinstance(leaf, str) else leaf, raw=True)
        return found if found is not None and found.ranges else None

    async def _laid(self, leaf: Parent) -> list[Overlay]:
        return await self._session.overlays(leaf) if callable(getattr(self._session._store, "overlays", None)) else []  # pyright: ignore[reportPrivateUsage]


def _tools_text(tools: object) -> str:
    """The tools as JSON text, those of plait in a shape of their own."""
    if isinstance(tools, str):
        return tools
    given = [tool.to_mcp() if isinstance(tool, AsyncTool) else tool for tool in tools] if is_list(tools) else tools
    try:
        return jsontext.encode(given)
    except (TypeError, ValueError, RecursionError):
        raise arguments.refusal("tools", "text, or what JSON can say", tools) from None
