"""What somebody knows of a session who has only read its feed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import plait


@dataclass
class Mirror:
    """A session's tree, texts, leaf and overlays, built from its changes alone."""

    parents: dict[str, str | None] = field(default_factory=dict[str, "str | None"])
    texts: dict[str, str] = field(default_factory=dict[str, str])
    leaf: str | None = None
    overlays: dict[str, plait.Overlay | None] = field(default_factory=dict[str, "plait.Overlay | None"])
    versions: list[int] = field(default_factory=list[int])

    def apply(self, change: plait.Change) -> None:
        assert change.version is not None
        if change.kind in ("append", "import"):
            (id,) = change.ids
            self.parents[id] = change.parent_id
            assert change.message is not None
            self.texts[id] = change.message.text
        elif change.kind == "update" and change.message is not None:
            self.texts[change.ids[0]] = change.message.text
        elif change.kind == "delete":
            self._delete(change.ids)
        elif change.kind in ("overlay", "compact"):
            self._lay(change)
        elif change.kind in ("clear", "delete session"):
            self.parents, self.texts, self.overlays = {}, {}, {}
        if change.leaf_moved:
            self.leaf = change.leaf_id
        self.versions.append(change.version)

    def _delete(self, ids: Sequence[str]) -> None:
        for id in ids:
            if id in self.parents:
                above = self.parents.pop(id)
                self.texts.pop(id, None)
                self.parents = {child: above if up == id else up for child, up in self.parents.items()}

    def _lay(self, change: plait.Change) -> None:
        (id,) = change.ids
        if change.removed:
            del self.overlays[id]
        else:
            self.overlays[id] = change.overlay

    def check(self, chat: plait.Session) -> None:
        """Hold that the session is what its feed says, and that each change came once and in order."""
        stored = {message.id: message for message in chat.everything() if isinstance(message, plait.Message)}
        assert self.parents == {id: message.parent_id for id, message in stored.items()}
        assert self.texts == {id: message.text for id, message in stored.items()}
        leaf = chat.leaf()
        assert self.leaf == (leaf.id if leaf else None)
        laid = {overlay.id: overlay for overlay in chat.overlays(all=True)}
        assert self.overlays.keys() == laid.keys()
        assert all(seen is not None and seen.stale == laid[id].stale for id, seen in self.overlays.items())
        assert self.versions == sorted(set(self.versions)), "each once, in order"
