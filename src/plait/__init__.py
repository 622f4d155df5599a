"""Where AI agents keep their conversations: trees of messages, kept exactly, in one file."""

from __future__ import annotations

import importlib
import typing

from plait.errors import (
    BlockTooLargeError,
    ClosedError,
    CompactionError,
    ConflictError,
    CorruptError,
    CursorExpiredError,
    InvalidMessageError,
    LeafMovedError,
    LeaseHeldError,
    LeaseLostError,
    LimitError,
    NotFoundError,
    PlaitError,
    RequestTooLargeError,
    SchemaError,
    SessionDeletedError,
    StaleValueError,
    StoreBusyError,
    StoreError,
    StoreUnavailableError,
    UnsupportedError,
    UsageError,
)
from plait.opening import open, open_async

if typing.TYPE_CHECKING:
    from plait import formats as formats
    from plait._async.context import AsyncContext
    from plait._async.hybrid import AsyncSearchProvider
    from plait._async.leasing import AsyncLease
    from plait._async.session import AsyncSession
    from plait._async.sessions import AsyncSessions
    from plait._async.tools import AsyncTool
    from plait._sync.context import Context
    from plait._sync.hybrid import SearchProvider
    from plait._sync.leasing import Lease
    from plait._sync.session import Session
    from plait._sync.sessions import Sessions
    from plait._sync.tools import Tool
    from plait.formats.crossing import messages_as
    from plait.logic.blocks import BlockSpec
    from plait.logic.compaction import CompactFunction, compact_function, summary_prompt
    from plait.logic.legal import NO_RESULT, legal_view
    from plait.logic.providers import (
        AgentSkillProvider,
        ContextProvider,
        KeyedWriter,
        SearchableProvider,
        SkillProvider,
        WritableProvider,
    )
    from plait.logic.trimming import enforce_row_size, truncate_older_messages
    from plait.model import (
        LEAF,
        OVERLAY_PREFIX,
        Appended,
        Attachment,
        Block,
        Change,
        Changes,
        Compacted,
        CompactionState,
        Copied,
        Covered,
        Damaged,
        Finding,
        Format,
        Hit,
        Imported,
        LeaseInfo,
        Message,
        Overlay,
        OverlayAdded,
        PrefixReport,
        Recorded,
        RetentionPlan,
        RowStat,
        SearchText,
        SessionInfo,
        SessionPage,
        Summary,
        Totals,
        Usage,
        Value,
        ValueHit,
        Window,
        assistant,
        system,
        user,
    )
    from plait.store._async.port import AsyncStore
    from plait.store._sync.port import Store
else:
    # Everything but the errors and `open` is loaded when it is first asked for: who uses one face does not wait for
    # the other, and who only imports plait waits for next to nothing. Type checkers see the imports above.
    # What is not named here is plait.model's.
    _ELSEWHERE = {
        "AgentSkillProvider": "plait.logic.providers",
        "AsyncContext": "plait._async.context",
        "AsyncLease": "plait._async.leasing",
        "AsyncSearchProvider": "plait._async.hybrid",
        "AsyncSession": "plait._async.session",
        "AsyncSessions": "plait._async.sessions",
        "AsyncStore": "plait.store._async.port",
        "AsyncTool": "plait._async.tools",
        "BlockSpec": "plait.logic.blocks",
        "CompactFunction": "plait.logic.compaction",
        "Context": "plait._sync.context",
        "ContextProvider": "plait.logic.providers",
        "KeyedWriter": "plait.logic.providers",
        "Lease": "plait._sync.leasing",
        "NO_RESULT": "plait.logic.legal",
        "SearchProvider": "plait._sync.hybrid",
        "SearchableProvider": "plait.logic.providers",
        "Session": "plait._sync.session",
        "Sessions": "plait._sync.sessions",
        "SkillProvider": "plait.logic.providers",
        "Store": "plait.store._sync.port",
        "Tool": "plait._sync.tools",
        "WritableProvider": "plait.logic.providers",
        "compact_function": "plait.logic.compaction",
        "enforce_row_size": "plait.logic.trimming",
        "legal_view": "plait.logic.legal",
        "messages_as": "plait.formats.crossing",
        "summary_prompt": "plait.logic.compaction",
        "truncate_older_messages": "plait.logic.trimming",
    }

    def __getattr__(name):
        if name == "formats":
            return importlib.import_module("plait.formats")
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(importlib.import_module(_ELSEWHERE.get(name, "plait.model")), name)
        return value

    def __dir__():
        return [*globals(), *(name for name in __all__ if name not in globals())]


__all__ = [
    "LEAF",
    "NO_RESULT",
    "OVERLAY_PREFIX",
    "AgentSkillProvider",
    "Appended",
    "AsyncContext",
    "AsyncLease",
    "AsyncSearchProvider",
    "AsyncSession",
    "AsyncSessions",
    "AsyncStore",
    "AsyncTool",
    "Attachment",
    "Block",
    "BlockSpec",
    "BlockTooLargeError",
    "Change",
    "Changes",
    "ClosedError",
    "CompactFunction",
    "Compacted",
    "CompactionError",
    "CompactionState",
    "ConflictError",
    "Context",
    "ContextProvider",
    "Copied",
    "CorruptError",
    "Covered",
    "CursorExpiredError",
    "Damaged",
    "Finding",
    "Format",
    "Hit",
    "Imported",
    "InvalidMessageError",
    "KeyedWriter",
    "LeafMovedError",
    "Lease",
    "LeaseHeldError",
    "LeaseInfo",
    "LeaseLostError",
    "LimitError",
    "Message",
    "NotFoundError",
    "Overlay",
    "OverlayAdded",
    "PlaitError",
    "PrefixReport",
    "Recorded",
    "RequestTooLargeError",
    "RetentionPlan",
    "RowStat",
    "SchemaError",
    "SearchProvider",
    "SearchText",
    "SearchableProvider",
    "Session",
    "SessionDeletedError",
    "SessionInfo",
    "SessionPage",
    "Sessions",
    "SkillProvider",
    "StaleValueError",
    "Store",
    "StoreBusyError",
    "StoreError",
    "StoreUnavailableError",
    "Summary",
    "Tool",
    "Totals",
    "UnsupportedError",
    "Usage",
    "UsageError",
    "Value",
    "ValueHit",
    "Window",
    "WritableProvider",
    "assistant",
    "compact_function",
    "enforce_row_size",
    "legal_view",
    "messages_as",
    "open",
    "open_async",
    "summary_prompt",
    "system",
    "truncate_older_messages",
    "user",
]
