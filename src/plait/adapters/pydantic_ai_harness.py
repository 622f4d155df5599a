"""plait under Pydantic AI's harness: its memory files as entries of a block of context, its media as attachments."""

# It pins a Pydantic AI older than the one that the other adapter needs, so it is not among the developers' tools.
# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false, reportUnknownArgumentType=false

from __future__ import annotations

import inspect
import json
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final

import plait
from plait.adapters.extras import missing

try:
    from pydantic_ai_harness.media import MediaContext
    from pydantic_ai_harness.memory import (
        MemoryConflictError,
        MemoryFile,
        MemoryMutation,
        MemoryOperation,
        MemoryOperationConflictError,
        MemorySearchMatch,
        MemorySearchResult,
    )
except ImportError as error:
    raise missing("pydantic_ai_harness", error) from error

__all__ = ["MediaStore", "MemoryStore"]

LABEL: Final = "memories"
PAGE: Final = 100
MAX_METADATA_CHARS: Final = 4096
SEGMENT_CHARS: Final = 200
SCHEME: Final = "media+sha256://"
_NOTHING: Final = MediaContext()
_SAFE: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-")

PublicUrl = Callable[[str, MediaContext], "str | Awaitable[str | None] | None"]


class MemoryStore:
    """The harness' memory files, each an entry of one block of context: for `Memory(store=...)`.

    The block is declared as documents if the session has not declared it: its files are listed in the
    prompt, loaded, kept in all their versions and followed like other entries. A write happens only if
    nobody has written since (`MemoryConflictError`), and an operation only once, also when its answer was
    lost: what it did is said by the version that it made. Receipts are kept as long as versions are.
    """

    def __init__(self, session: plait.AsyncSession, *, label: str = LABEL) -> None:
        self._session = session
        self._label = label

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._session!r}, label={self._label!r})"

    async def read(self, path: str, *, max_chars: int) -> MemoryFile | None:
        """The file, its first `max_chars` characters, or `None`."""
        _check_path(path)
        _check_positive("max_chars", max_chars)
        value = await self._context.entry(self._label, path)
        if value.content is None:
            return None
        return MemoryFile(
            content=value.content[:max_chars],
            version=str(value.version),
            operation_id=value.metadata.get("operation"),
            truncated=len(value.content) > max_chars,
            metadata=value.metadata.get("metadata"),
        )

    async def get_operation(self, operation: MemoryOperation) -> MemoryMutation | None:
        """What an operation did, if it did; `MemoryOperationConflictError` if its id stands for another one."""
        key = self._key(operation)
        found = (await self._session.read_records([key])).get(key)
        if found is None:
            return None
        path, idle = json.loads(found)
        if idle is not None:
            _check_same(operation, idle)
            return MemoryMutation(version=None, replayed=True, existed=False)
        async for value in self._versions(path):
            if value.metadata.get("operation") == operation.id:
                _check_same(operation, value.metadata.get("fingerprint"))
                version = None if value.content is None else str(value.version)
                return MemoryMutation(version=version, replayed=True, existed=value.metadata.get("existed") is True)
        return None  # it was begun, and has written nothing

    async def write(
        self, path: str, content: str, *, expected_version: str | None, operation: MemoryOperation | None = None
    ) -> MemoryMutation:
        """Create or replace a file if its version is `expected_version`, recording no metadata."""
        return await self._change(path, content, expected_version, operation, None)

    async def write_with_metadata(
        self,
        path: str,
        content: str,
        *,
        expected_version: str | None,
        metadata: Mapping[str, str] | None,
        operation: MemoryOperation | None = None,
    ) -> MemoryMutation:
        """The same, recording metadata with the version that it makes."""
        return await self._change(path, content, expected_version, operation, metadata)

    async def delete(
        self, path: str, *, expected_version: str | None, operation: MemoryOperation | None = None
    ) -> MemoryMutation:
        """Delete a file if its version is `expected_version`."""
        return await self._change(path, None, expected_version, operation, None)

    async def list_paths(self, prefix: str = "", *, limit: int) -> list[str]:
        """The paths that begin with `prefix`, sorted, at most `limit`."""
        _check_prefix(prefix)
        _check_positive("limit", limit)
        paths: list[str] = []
        async for value in self._files(prefix):
            paths.append(value.key)
            if len(paths) == limit:
                break
        return paths

    async def search(
        self, prefix: str, query: str, *, limit: int, max_files: int, max_chars: int, max_file_chars: int
    ) -> MemorySearchResult:
        """The files directly below `prefix` that hold the most of a query's words, in no more characters than given."""
        _check_prefix(prefix)
        terms = query.lower().split()
        if not terms or min(limit, max_files, max_chars, max_file_chars) <= 0:
            return MemorySearchResult(matches=[], scanned=0, truncated=False)
        scored: list[tuple[float, str, str]] = []
        scanned, cut = 0, False
        async for value in self._files(prefix):
            name, content = value.key.removeprefix(prefix), value.content or ""
            if "/" in name:
                continue
            if scanned == max_files:
                cut = True
                break
            scanned, cut = scanned + 1, cut or len(content) > max_file_chars
            if score := _score(name, content[:max_file_chars], terms):
                scored.append((-score, name, content[:max_file_chars]))
        matches = _matches(prefix, sorted(scored)[:limit], terms, max_chars)
        return MemorySearchResult(matches=matches, scanned=scanned, truncated=cut or len(scored) > len(matches))

    @property
    def _context(self) -> plait.AsyncContext:
        if self._label not in self._session.context.labels():
            self._session.with_context(self._label, kind="documents")
        return self._session.context

    def _key(self, operation: MemoryOperation) -> bytes:
        return f"pydantic-ai:memory:{self._label}:{operation.id}".encode("utf-8", "surrogatepass")

    async def _change(
        self,
        path: str,
        content: str | None,
        expected_version: str | None,
        operation: MemoryOperation | None,
        metadata: Mapping[str, str] | None,
    ) -> MemoryMutation:
        _check_path(path)
        about: dict[str, Any] = {"write": uuid.uuid4().hex, "existed": expected_version is not None}
        about |= {"metadata": _checked(metadata)} if metadata else {}
        if operation is not None:
            about |= {"operation": operation.id, "fingerprint": operation.fingerprint}
            if (receipt := await self.get_operation(operation)) is not None:
                return receipt
            await self._begin(operation, path)
        try:
            value = await self._context.write_entry(
                self._label, path, content, metadata=about, expect_version=_version(path, expected_version)
            )
        except plait.StaleValueError:
            # The same operation may have been repeated, and have won meanwhile.
            receipt = None if operation is None else await self.get_operation(operation)
            if receipt is None:
                raise MemoryConflictError(f"memory path {path!r} changed before it could be written") from None
            return receipt
        if content is None and expected_version is None and operation is not None:
            await self._begin(operation, path, idle=operation.fingerprint)
        version = None if content is None else str(value.version)
        return MemoryMutation(version=version, replayed=False, existed=expected_version is not None)

    async def _begin(self, operation: MemoryOperation, path: str, *, idle: str | None = None) -> None:
        """Note where an operation writes, for whoever asks only by its id; `idle`: what had nothing to delete."""
        noted = json.dumps([path, idle]).encode()
        await self._session.write_records({self._key(operation): noted})

    async def _files(self, prefix: str) -> AsyncIterator[plait.Value]:
        after = ""
        while page := await self._context.entries(self._label, prefix=prefix, after=after, limit=PAGE):
            for value in page:
                yield value
            after = page[-1].key

    async def _versions(self, path: str) -> AsyncIterator[plait.Value]:
        before: int | None = None
        while page := await self._context.history(self._label, key=path, before=before, limit=PAGE):
            for value in page:
                yield value
            before = page[-1].version


def _check_same(operation: MemoryOperation, fingerprint: object) -> None:
    if fingerprint != operation.fingerprint:
        raise MemoryOperationConflictError(f"operation id {operation.id!r} was reused with different arguments")


def _version(path: str, expected: str | None) -> int:
    """The number of a version; one that no write has made can never stand there."""
    if expected is None:
        return 0
    if not expected.isascii() or not expected.isdigit() or int(expected) == 0:
        raise MemoryConflictError(f"memory path {path!r} has never had the version {expected!r}")
    return int(expected)


def _check_path(path: str) -> None:
    for segment in path.split("/"):
        if not 0 < len(segment) <= SEGMENT_CHARS or not _SAFE.issuperset(segment) or ".." in segment or segment == ".":
            raise ValueError(f"invalid memory path: {path!r}")


def _check_prefix(prefix: str) -> None:
    if prefix:
        _check_path(prefix.removesuffix("/"))


def _check_positive(name: str, number: int) -> None:
    if number <= 0:
        raise ValueError(f"{name} must be positive")


def _checked(metadata: Mapping[str, str]) -> dict[str, str]:
    """Metadata as every store of the harness takes it: strings without NUL, and not much of it."""
    if not all(isinstance(key, str) and isinstance(value, str) for key, value in metadata.items()):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError("memory metadata keys and values must be strings")
    if any("\x00" in key or "\x00" in value for key, value in metadata.items()):
        raise ValueError("memory metadata keys and values must not contain NUL characters")
    size = len(json.dumps(dict(metadata), ensure_ascii=False, separators=(",", ":")))
    if size > MAX_METADATA_CHARS:
        raise ValueError(f"memory metadata is {size} characters as JSON; the limit is {MAX_METADATA_CHARS}")
    return dict(metadata)


def _score(name: str, content: str, terms: list[str]) -> float:
    words, path = content.lower(), name.lower()
    return float(sum(words.count(term) + 2 * path.count(term) for term in terms))


def _matches(
    prefix: str, scored: list[tuple[float, str, str]], terms: list[str], max_chars: int
) -> list[MemorySearchMatch]:
    """As many as `max_chars` has room for, the last one cut."""
    matches: list[MemorySearchMatch] = []
    for score, name, content in scored:
        room = max_chars - len(name)
        if room <= 0:
            break
        snippet = _snippet(content, terms, room)
        matches.append(MemorySearchMatch(path=prefix + name, snippet=snippet, score=-score))
        max_chars = room - len(snippet)
    return matches


def _snippet(content: str, terms: list[str], room: int) -> str:
    """The piece of a file around the first of the words, with dots where it was cut."""
    lower = content.lower()
    found = [at for term in terms if (at := lower.find(term)) >= 0]
    start = max(0, min(min(found, default=0) - room // 3, len(content) - room))
    piece = content[start : start + room]
    before, after = "..." if start else "", "..." if start + room < len(content) else ""
    if len(before + after) > len(piece):
        return piece
    return before + piece[len(before) : len(piece) - len(after)] + after


class MediaStore:
    """The harness' media, each a message of one session whose attachment it is: `media+sha256://…` by its bytes.

    What is put twice is there once; the media type and metadata of the first put stay. Deleting the
    message deletes the bytes, unless another message of the scope holds them. Give it a session of its own.
    """

    def __init__(self, session: plait.AsyncSession, *, public_url: PublicUrl | None = None) -> None:
        self._session = session
        self._public_url = public_url

    async def put(self, data: bytes, *, context: MediaContext = _NOTHING) -> str:
        """Keep the bytes; answers their URI."""
        media_type = context.media_type or "application/octet-stream"
        attachment = await self._session.sessions.put_attachment(data, media_type=media_type)
        named = {"filename": context.filename} if context.filename else {}
        part = {"type": "file", "mediaType": media_type, "url": attachment, **named}
        message = {"role": "user", "parts": [part], "metadata": dict(context.metadata)}
        await self._session.append(message, id=attachment.hash, parent=None)
        return SCHEME + attachment.hash

    async def get(self, uri: str, *, context: MediaContext = _NOTHING) -> bytes:
        """The bytes; `FileNotFoundError` if they were never put."""
        try:
            return b"".join([piece async for piece in self._session.read_attachment(_hash(uri))])
        except plait.NotFoundError:
            raise FileNotFoundError(f"media not found: {uri}") from None

    async def exists(self, uri: str, *, context: MediaContext = _NOTHING) -> bool:
        """Whether the bytes are there."""
        return await self._session.get(_hash(uri)) is not None

    async def public_url(self, uri: str, *, context: MediaContext = _NOTHING) -> str | None:
        """What `public_url` says where a model can fetch them; `None` without one."""
        found = None if self._public_url is None else self._public_url(uri, context)
        return await found if inspect.isawaitable(found) else found

    async def get_metadata(self, uri: str, *, context: MediaContext = _NOTHING) -> Mapping[str, str]:
        """The metadata of the first put; `FileNotFoundError` if there was none."""
        message = await self._session.get(_hash(uri))
        if not isinstance(message, plait.Message):
            raise FileNotFoundError(f"media not found: {uri}")
        return message.metadata


def _hash(uri: str) -> str:
    digest = uri.removeprefix(SCHEME)
    if not uri.startswith(SCHEME) or len(digest) != 64 or set(digest) - set("0123456789abcdef"):
        raise ValueError(f"not a media URI: {uri!r}")
    return digest
