"""Opaque cursors: where a listing goes on, tied to the scope it was given for."""

from __future__ import annotations

import base64
import hashlib

from msgspec import Struct

from plait.errors import UsageError
from plait.store.protocol import Scope


class ListCursor(Struct, frozen=True):
    """The last session of a page: its exact last activity, and its id, by which those of one instant are told apart."""

    at_us: int
    id: str

    def text(self, scope: Scope) -> str:
        """The cursor as given to callers."""
        plain = f"{_seal(scope)}.{self.at_us}.{self.id}"
        return base64.urlsafe_b64encode(plain.encode("utf-8", "surrogatepass")).decode().rstrip("=")

    @classmethod
    def parse(cls, text: str, scope: Scope) -> ListCursor:
        """A cursor given back; `UsageError` if it is not one of this scope's listing."""
        try:
            plain = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode("utf-8", "surrogatepass")
            seal, at_us, id = plain.split(".", 2)
            cursor = cls(int(at_us), id)
            cursor.at_us.to_bytes(8, "big", signed=True)
        except (ValueError, OverflowError):
            raise UsageError("this is not a cursor of a session listing; pass one that list() returned") from None
        if seal != _seal(scope):
            raise UsageError(
                "this cursor belongs to another scope's listing; pass one that this scope's list() returned"
            )
        return cursor


def _seal(scope: Scope) -> str:
    sealed = f"{len(scope.tenant)}:{scope.tenant}{scope.owner}"
    return hashlib.sha256(sealed.encode("utf-8", "surrogatepass")).hexdigest()[:12]
