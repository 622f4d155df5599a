"""How checkpoints lie in a session's records: their keys, and the bytes of what stands under them.

| key | body |
|---|---|
| `lg` `c` namespace, checkpoint | parent, metadata, the checkpoint without its values |
| `lg` `b` namespace, channel, version | the value that a channel has at a version |
| `lg` `w` namespace, checkpoint, task, kind | what a task wrote: its path, then index, channel and value of each |

A namespace and a channel end in 00 01, and a 00 in them is 00 ff, so that keys are in their order. Ids that are UUIDs are 16
bytes after a 01, others their text after a 02.
"""

from __future__ import annotations

import re
import uuid
import zlib
from typing import Any, Final

import msgspec

PREFIX: Final = b"lg"
KIND_BYTES: Final = len(PREFIX) + 1
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
LEAST_DEFLATED_BYTES: Final = 64
MOST_DEFLATED_BYTES: Final = 1 << 14
DICTIONARY: Final = (
    b"langchain_core.messages.functionFunctionMessagelangchain_core.messages.chatChatMessagerole"
    b"langchain_core.messages.systemSystemMessagesystemlanggraph.typesInterruptresumablewhenduringSendCommandgoto"
    b"errorfinish_reasonstopmodel_namemodel_providercache_readinput_token_detailsoutput_token_detailsreasoning"
    b"langchain_core.messages.toolToolMessagetool_call_idartifactstatussuccess"
    b"input_tokensoutput_tokenstotal_tokensnameargsidtypetool_callusertoolassistantroletext"
    b"langchain_core.messages.humanHumanMessagecontentadditional_kwargsresponse_metadatatypehumannameid"
    b"langchain_core.messages.aiAIMessagecontentadditional_kwargsresponse_metadatatypeainameidlc_run--"
    b"tool_callsinvalid_tool_callsusage_metadatamodel_validate_json"
    b"counters_since_delta_snapshotrun_idlanggraph_versionlanggraph_plangraph_idassistant_iduser_idthread_id"
    b"__pregel_tasks__pregel_push__no_writes____error____interrupt____resume__"
    b"nullbytes\xa7msgpack\x83\xa6source\xa4loop\xa4step\xa7parents\x80\xa5input\xa6update\xa4fork"
    b"__input__\x80\xa9__start__\x81\xa9__start__\xa8messages\xafbranch:to:agent\xaabranch:to:tools\xafbranch:to:model"
    b"\xb0updated_channels\x91\xa8messages2026-11-30T10:00:00.000000+00:00"
)
"""What deflating begins from. It is part of how records are stored: it never changes, another one gets another mark."""
_pack: Final = msgspec.msgpack.Encoder()
_unpack: Final = msgspec.msgpack.Decoder()


def pack(value: Any) -> bytes:
    """A record's body: a small one deflated, with what most of them say known beforehand."""
    data = _pack.encode(value)
    if LEAST_DEFLATED_BYTES <= len(data) <= MOST_DEFLATED_BYTES:
        deflate = zlib.compressobj(6, zlib.DEFLATED, -13, 5, zlib.Z_DEFAULT_STRATEGY, DICTIONARY)
        small = deflate.compress(data) + deflate.flush()
        if len(small) < len(data):
            return b"\x01" + small
    return b"\x00" + data


def unpack(body: bytes) -> Any:
    """What a record's body says."""
    data = body[1:]
    if body[:1] == b"\x01":
        inflate = zlib.decompressobj(-15, DICTIONARY)
        data = inflate.decompress(data) + inflate.flush()
    return _unpack.decode(data)


def text(value: str) -> bytes:
    """A text that other things follow in a key."""
    return value.encode("utf-8", "surrogatepass").replace(b"\x00", b"\x00\xff") + b"\x00\x01"


def untext(key: bytes, at: int) -> tuple[str, int]:
    """The text that begins at a place of a key, and the place after it."""
    end = key.index(b"\x00\x01", at)
    return key[at:end].replace(b"\x00\xff", b"\x00").decode("utf-8", "surrogatepass"), end + 2


def short(id: str) -> bytes:
    """An id as bytes, a UUID as its 16."""
    if _UUID.fullmatch(id):
        return b"\x01" + uuid.UUID(id).bytes
    return b"\x02" + id.encode("utf-8", "surrogatepass")


def long(id: bytes) -> str:
    """The id that `short` made bytes of."""
    return str(uuid.UUID(bytes=id[1:])) if id[:1] == b"\x01" else id[1:].decode("utf-8", "surrogatepass")


def sized(id: str) -> bytes:
    """An id that others follow in a key."""
    return text(id) if not _UUID.fullmatch(id) else b"\x00\x00" + uuid.UUID(id).bytes


def checkpoint_key(namespace: str, id: str) -> bytes:
    return PREFIX + b"c" + text(namespace) + short(id)


def value_key(namespace: str, channel: str, version: Any) -> bytes:
    return PREFIX + b"b" + text(namespace) + text(channel) + _pack.encode(version)


def writes_prefix(namespace: str, id: str) -> bytes:
    return PREFIX + b"w" + text(namespace) + sized(id)


def writes_key(namespace: str, id: str, task: str, kind: str) -> bytes:
    """`kind` is empty for a task's own writes; special ones, such as an interrupt, are replaced each by itself."""
    return writes_prefix(namespace, id) + sized(task) + kind.encode("utf-8", "surrogatepass")


def after(prefix: bytes) -> bytes:
    """The first key after all that begin with `prefix`."""
    return prefix + b"\xff" * 8 if not prefix.rstrip(b"\xff") else _raised(prefix.rstrip(b"\xff"))


def _raised(key: bytes) -> bytes:
    return key[:-1] + bytes([key[-1] + 1])


def namespaced(kind: bytes, namespace: str) -> tuple[bytes, bytes]:
    """Between which keys the records of a kind in a namespace are."""
    first = PREFIX + kind + text(namespace)
    return first, after(first)


def parse_checkpoint(key: bytes) -> tuple[str, str]:
    """The namespace and the id in a checkpoint's key."""
    namespace, at = untext(key, len(PREFIX) + 1)
    return namespace, long(key[at:])


def parse_value(key: bytes) -> tuple[str, str, Any]:
    """The namespace, channel and version in a value's key."""
    namespace, at = untext(key, len(PREFIX) + 1)
    channel, at = untext(key, at)
    return namespace, channel, _unpack.decode(key[at:])


def parse_task(key: bytes, prefix: bytes) -> str:
    """The task in the key of its writes."""
    at = len(prefix)
    if key[at : at + 2] == b"\x00\x00":
        return str(uuid.UUID(bytes=key[at + 2 : at + 18]))
    return untext(key, at)[0]
