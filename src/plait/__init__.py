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
    _LATER = {
        "AgentSkillProvider": "plait.logic.providers",
        "Appended": "plait.model",
        "AsyncContext": "plait._async.context",
        "AsyncLease": "plait._async.leasing",
        "AsyncSearchProvider": "plait._async.hybrid",
        "AsyncSession": "plait._async.session",
        "AsyncSessions": "plait._async.sessions",
        "AsyncStore": "plait.store._async.port",
        "AsyncTool": "plait._async.tools",
        "Attachment": "plait.model",
        "Block": "plait.model",
        "BlockSpec": "plait.logic.blocks",
        "Change": "plait.model",
        "Changes": "plait.model",
        "CompactFunction": "plait.logic.compaction",
        "Compacted": "plait.model",
        "CompactionState": "plait.model",
        "Context": "plait._sync.context",
        "ContextProvider": "plait.logic.providers",
        "Copied": "plait.model",
        "Covered": "plait.model",
        "Damaged": "plait.model",
        "Finding": "plait.model",
        "Format": "plait.model",
        "Hit": "plait.model",
        "Imported": "plait.model",
        "KeyedWriter": "plait.logic.providers",
        "LEAF": "plait.model",
        "Lease": "plait._sync.leasing",
        "LeaseInfo": "plait.model",
        "Message": "plait.model",
        "NO_RESULT": "plait.logic.legal",
        "OVERLAY_PREFIX": "plait.model",
        "Overlay": "plait.model",
        "OverlayAdded": "plait.model",
        "PrefixReport": "plait.model",
        "Recorded": "plait.model",
        "RetentionPlan": "plait.model",
        "RowStat": "plait.model",
        "SearchProvider": "plait._sync.hybrid",
        "SearchText": "plait.model",
        "SearchableProvider": "plait.logic.providers",
        "Session": "plait._sync.session",
        "SessionInfo": "plait.model",
        "SessionPage": "plait.model",
        "Sessions": "plait._sync.sessions",
        "SkillProvider": "plait.logic.providers",
        "Store": "plait.store._sync.port",
        "Summary": "plait.model",
        "Tool": "plait._sync.tools",
        "Totals": "plait.model",
        "Usage": "plait.model",
        "Value": "plait.model",
        "ValueHit": "plait.model",
        "Window": "plait.model",
        "WritableProvider": "plait.logic.providers",
        "assistant": "plait.model",
        "compact_function": "plait.logic.compaction",
        "enforce_row_size": "plait.logic.trimming",
        "legal_view": "plait.logic.legal",
        "messages_as": "plait.formats.crossing",
        "summary_prompt": "plait.logic.compaction",
        "system": "plait.model",
        "truncate_older_messages": "plait.logic.trimming",
        "user": "plait.model",
    }

    def __getattr__(name):
        if name == "formats":
            return importlib.import_module("plait.formats")
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(importlib.import_module(_LATER[name]), name)
        return value

    def __dir__():
        return [*globals(), *(name for name in _LATER if name not in globals())]


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
