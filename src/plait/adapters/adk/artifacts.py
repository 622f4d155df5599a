"""ADK's artifact service on plait's attachments: each artifact a session, each version a message of it.

Bytes are kept by their hash, once for each session of a user (or for what is the user's own), however many
versions and names they have.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, Final

from google.adk.artifacts import artifact_util
from google.adk.artifacts.base_artifact_service import ArtifactVersion, BaseArtifactService, ensure_part
from google.adk.errors.input_validation_error import InputValidationError
from google.genai import types
from pydantic import BaseModel

from plait import AsyncSession, AsyncSessions, LeafMovedError, Message
from plait.adapters.adk import scopes
from plait.adapters.adk.exact import noted, restored
from plait.model import Json

PART: Final = "adk-artifact"
HOPS: Final = 5
"""How many references to other artifacts are followed one after another."""


class PlaitArtifactService(BaseArtifactService):
    """Keeps artifacts in `sessions`, which the caller has opened and closes.

    Versions count from 0. Names are data: any text, never a path. Those that begin with `user:`, and all
    that are saved without a session, are the user's own and seen from all of their sessions. Savers at once
    get versions of their own. Deleting an artifact deletes its versions and what only they used.
    """

    def __init__(self, sessions: AsyncSessions) -> None:
        self.sessions = sessions

    @scopes.afresh
    async def save_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        artifact: types.Part | dict[str, Any],
        session_id: str | None = None,
        custom_metadata: dict[str, Any] | None = None,
    ) -> int:
        """Keep a part as the next version of an artifact; answers its number."""
        part = ensure_part(artifact)
        _check(part, app_name, user_id, session_id)
        handle = self._artifact(app_name, user_id, session_id, filename)
        body = await _message(handle.sessions, part, custom_metadata)
        while True:
            leaf = await handle.leaf()
            version = 0 if leaf is None else int(leaf.id) + 1
            try:
                stored = await handle.append(
                    {**body, "id": str(version)}, expect_leaf=None if leaf is None else leaf.id
                )
            except LeafMovedError:
                continue  # somebody saved this version meanwhile
            if stored.inserted:
                return version

    async def load_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> types.Part | None:
        """A version of an artifact, the newest by default; `None` if there is none. References are followed."""
        for _ in range(HOPS + 1):
            message = await self._version(app_name, user_id, session_id, filename, version)
            part = None if message is None else _part(message)
            if part is None or not artifact_util.is_artifact_ref(part):
                return None if part is None or _is_gone(part) else part
            target = _target(part, app_name, user_id, session_id)
            filename, version, session_id = target.filename, target.version, target.session_id
        raise InputValidationError(f"more than {HOPS} artifacts refer to one another, the last one to {filename!r}")

    async def list_artifact_keys(self, *, app_name: str, user_id: str, session_id: str | None = None) -> list[str]:
        """The names of the user's own artifacts, and of the session's if one is given; sorted."""
        found = [name async for name in self._names(app_name, user_id, None)]
        if session_id is not None:
            found += [name async for name in self._names(app_name, user_id, session_id)]
        return sorted(set(found))

    async def _names(self, app: str, user: str, session: str | None) -> AsyncIterator[str]:
        try:
            scope = scopes.artifacts(self.sessions, app, user, session)
        except InputValidationError:
            return
        async for info in scope.all():
            if info.totals.messages:
                yield json.loads(info.id)[0]

    async def delete_artifact(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> None:
        """Delete an artifact with all its versions; nothing if there is none."""
        handle = self._there(app_name, user_id, session_id, filename)
        if handle is not None:
            await handle.sessions.delete(handle.id)

    @scopes.afresh
    async def list_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[int]:
        """The numbers of an artifact's versions, in order."""
        handle = self._there(app_name, user_id, session_id, filename)
        return [int(row.id) async for row in handle.path_stats(raw=True)] if handle is not None else []

    @scopes.afresh
    async def list_artifact_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[ArtifactVersion]:
        """An artifact's versions with what is known of each, in order."""
        handle = self._there(app_name, user_id, session_id, filename)
        if handle is None:
            return []
        names = (app_name, user_id, session_id, filename)
        return [_described(message, *names) async for message in handle.transcript() if isinstance(message, Message)]

    async def get_artifact_version(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> ArtifactVersion | None:
        """What is known of a version, the newest by default; `None` if there is none."""
        message = await self._version(app_name, user_id, session_id, filename, version)
        return None if message is None else _described(message, app_name, user_id, session_id, filename)

    def _artifact(self, app: str, user: str, session: str | None, filename: str) -> AsyncSession:
        """The session that an artifact is."""
        if not filename.strip():
            raise InputValidationError("an artifact has a filename that is not blank")
        own = session is None or filename.startswith("user:")
        scope = scopes.artifacts(self.sessions, app, user, None if own else session)
        return scope.session(json.dumps([filename], ensure_ascii=False))

    def _there(self, app: str, user: str, session: str | None, filename: str) -> AsyncSession | None:
        """The session that an artifact is; `None` for names that none can have."""
        try:
            return self._artifact(app, user, session, filename)
        except ValueError:
            return None

    @scopes.afresh
    async def _version(
        self, app: str, user: str, session: str | None, filename: str, version: int | None
    ) -> Message | None:
        handle = self._there(app, user, session, filename)
        if handle is None:
            return None
        found = await (handle.leaf() if version is None else handle.get(str(version)))
        return found if isinstance(found, Message) else None


def _check(part: types.Part, app: str, user: str, session: str | None) -> None:
    """Refuse what is no artifact, and references out of the caller's reach."""
    if part.inline_data is None and part.text is None and part.file_data is None:
        raise InputValidationError("an artifact is a part with inline_data, text or file_data")
    if artifact_util.is_artifact_ref(part):
        _target(part, app, user, session)


def _target(part: types.Part, app: str, user: str, session: str | None) -> artifact_util.ParsedArtifactUri:
    assert part.file_data is not None
    found = artifact_util.parse_artifact_uri(part.file_data.file_uri or "")
    if found is None:
        raise InputValidationError(f"Invalid artifact reference URI: {part.file_data.file_uri}")
    artifact_util.validate_artifact_reference_scope(app_name=app, user_id=user, session_id=session, parsed_uri=found)
    return found


async def _message(scope: AsyncSessions, part: types.Part, custom: dict[str, Any] | None) -> Json:
    """A part as the message that is stored; its bytes are put ahead, and not spelled on the way."""
    bare = part.model_copy(update={"inline_data": None})
    kept: Json = bare.model_dump(mode="json", by_alias=True, exclude_none=True)
    blob = part.inline_data
    if blob is not None:
        kept["inlineData"] = blob.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"data"})
        if blob.data:
            kind = blob.mime_type or "application/octet-stream"
            kept["inlineData"]["data"] = await scope.put_attachment(blob.data, media_type=kind)
        elif blob.data is not None:
            kept["inlineData"]["data"] = ""
    return {"role": "artifact", "parts": [{"type": PART, **kept}], "metadata": noted(custom or {})}


def _part(message: Message) -> types.Part:
    (kept,) = message.to_dict()["parts"]
    return types.Part.model_validate({key: value for key, value in kept.items() if key != "type"})


def _is_gone(part: types.Part) -> bool:
    """Whether this is what a rewind saves in the place of an artifact that was not there yet."""
    blob = part.inline_data
    bare: BaseModel = types.Part(inline_data=types.Blob(mime_type="application/octet-stream", data=b""))
    return part == types.Part() or (blob is not None and part == bare)


def _described(message: Message, app: str, user: str, session: str | None, filename: str) -> ArtifactVersion:
    content = message.to_dict()
    (kept,) = content["parts"]
    about = content["metadata"]
    session = None if filename.startswith("user:") else session
    media: Json = kept.get("inlineData") or kept.get("fileData") or {}
    return ArtifactVersion(
        version=int(message.id),
        canonical_uri=artifact_util.get_artifact_uri(app, user, filename, int(message.id), session),
        custom_metadata=restored(about["custom"], about.get("notes")),
        create_time=message.created_at.timestamp(),
        mime_type="text/plain" if "text" in kept else media.get("mimeType"),
    )
