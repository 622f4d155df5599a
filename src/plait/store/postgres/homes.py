"""Where sessions live: numbers made of their scope and id, so that no directory has to be asked."""

from __future__ import annotations

import hashlib
from typing import Any
from uuid import UUID

from msgspec import Struct

from plait.logic.ids import STAGE_PREFIX
from plait.store.protocol import Scope, SessionRef

STAGE_DIGITS = 32


class Where(Struct, frozen=True):
    """What the statements of a plan are told of the session that it has taken last.

    `number` is what the session's row is numbered if it has to be made, `other_home` another session's
    home into which rows are copied.
    """

    home: UUID | None = None
    scope: UUID | None = None
    number: int = 0
    other_home: UUID | None = None
    budget: int | None = None


def of_session(ref: SessionRef) -> Where:
    """Where a session lives; one that is staged lives where it is to be published."""
    id, number = ref.id, None
    if id.startswith(STAGE_PREFIX):
        digits, _, id = id[len(STAGE_PREFIX) :].partition(":")
        number = int(digits[:16], 16) >> 1
    digest = _digest("session", ref.scope.tenant, ref.scope.owner, id)
    own = int.from_bytes(digest[16:24], "big") >> 1
    return Where(UUID(bytes=digest[:16]), of_scope(ref.scope), own if number is None else number)


def of_scope(scope: Scope) -> UUID:
    """Where the payloads of a scope are."""
    return UUID(bytes=_digest("scope", scope.tenant, scope.owner)[:16])


def of_label(label: Any) -> Where:
    """What a query has said of the place of a row: its home, if it has one, and its scope."""
    home, scope = label
    return Where(home, scope)


def _digest(*names: str) -> bytes:
    text = "".join(f"{len(name)}:{name}" for name in names)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
