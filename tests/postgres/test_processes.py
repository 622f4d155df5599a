"""Processes at work on one database at once: one chain, and mixed work that ends without a deadlock."""

from __future__ import annotations

import json
from collections import Counter

import pytest

import plait
from tests.behaviour.programs import finished, run_together, start
from tests.dose import dose

CHAIN = """
n, url, each = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
stores = [plait.open(url) for _ in range(4)]
for store in stores:
    store.open()
ready()
def write(k):
    for i in range(each):
        assert stores[k].session("chat").append(note(f"{n}-{k}-{i}")).inserted
threads = [threading.Thread(target=write, args=(k,)) for k in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
for store in stores:
    store.close()
"""


@pytest.mark.timeout(dose(short=600, soak=3600))
def test_four_processes_with_four_connections_each_make_one_chain(url: str) -> None:
    each = dose(short=50, soak=200)
    run_together(CHAIN, 4, url, each)
    with plait.open(url) as sessions:
        chat = sessions.session("chat")
        found = list(chat.history())
        assert [message.seq for message in found] == list(range(1, 16 * each + 1))
        assert [message.parent_id for message in found[1:]] == [message.id for message in found[:-1]]
        assert len({message.id for message in found}) == 16 * each
        info = chat.info()
        assert info is not None and info.version == info.totals.path_messages == 16 * each


MIXED = """
import random
from plait.store.postgres.evidence import UNTOLD
n, url, seconds, faults = int(sys.argv[1]), sys.argv[2], float(sys.argv[3]), sys.argv[4] == "faults"
dice = random.Random(n)
done, refused = {}, {}
KINDS = ["append"] * 8 + ["many", "branch", "delete", "delete", "compact", "fork", "retain", "clear", "search", "checkout"]
KINDS += ["state", "update", "attach", "lease", "read", "delete session"]
def short(messages):
    return "in short"
def work(sessions, kind, i):
    chat = sessions.session(f"chat {dice.randrange(3)}")
    chat.on_compaction(plait.compact_function(short, keep_recent_tokens=20, protect_head=1, min_tail=1))
    here = [message.id for message in chat.recent(count=20).messages if not message.id.startswith("plait:")]
    if kind == "append" or not here:
        chat.append(note(f"{n}-{i}"))
    elif kind == "many":
        chat.append_many([note(f"{n}-{i}-{k}") for k in range(5)])
    elif kind == "branch":
        chat.append(note(f"{n}-{i}"), parent=dice.choice(here))
    elif kind == "delete":
        chat.delete(dice.sample(here, min(3, len(here))))
    elif kind == "compact":
        chat.compact()
    elif kind == "fork":
        chat.fork(f"copy {n}-{i}", at=dice.choice(here))
    elif kind == "retain":
        sessions.retain(max_count=8)
    elif kind == "clear":
        dice.random() < 0.2 and chat.clear()
    elif kind == "search":
        chat.search("words", limit=5)
    elif kind == "checkout":
        chat.checkout(dice.choice(here))
    elif kind == "update":
        chat.update(note(dice.choice(here), f"other words {i}"))
    elif kind == "attach":
        chat.append({"id": f"{n}-{i}", "role": "user", "parts": [
            {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,iVBORw0KGgoAAA" + "ABCD"[i % 4] + "A"}]})
    elif kind == "lease":
        with chat.lease(ttl_s=5) as turn:
            turn.append(note(f"{n}-{i}"))
    elif kind == "read":
        for change in chat.changes(limit=50).changes:
            change.ids
        list(chat.history())
    elif kind == "delete session":
        dice.random() < 0.2 and sessions.delete(chat.id)
    else:
        chat.update_state({str(n): i})
def end_some():
    import psycopg
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
                           " AND pid <> pg_backend_pid() AND random() < 0.5")
with plait.open(url) as sessions:
    end = time.monotonic() + seconds
    i = 0
    while time.monotonic() < end:
        i += 1
        kind = dice.choice(KINDS)
        if faults and n == 0 and i % 40 == 0:
            end_some()
        try:
            work(sessions, kind, i)
            done[kind] = done.get(kind, 0) + 1
        except (plait.errors.ConflictError, plait.errors.NotFoundError) as error:
            refused[type(error).__name__] = refused.get(type(error).__name__, 0) + 1
        except plait.errors.StoreUnavailableError as error:
            if not faults or UNTOLD not in str(error):
                raise
            refused["untold"] = refused.get("untold", 0) + 1
print(json.dumps([done, refused]))
"""


@pytest.mark.timeout(dose(short=600, soak=3600))
@pytest.mark.parametrize("faults", dose(short=["faults"], soak=["sound", "faults"]))
def test_mixed_work_of_many_processes_ends_and_leaves_a_sound_store(url: str, faults: str) -> None:
    """Only what others changed meanwhile is refused: no deadlock, no wait that is too long, no error of the server's.

    With faults half of all connections are ended again and again, wherever they are. Then what became of a write may not
    be told any more: what it wrote, if it did, was removed by another before anybody could look. That is said, and seldom.
    """
    seconds = dose(short=4, soak=600)
    running = [start(MIXED, n, url, seconds, faults) for n in range(4)]
    said = [json.loads(finished(process, timeout_s=seconds + 200)) for process in running]
    done: Counter[str] = sum((Counter(each) for each, _ in said), Counter())
    assert sum(done.values()) > 3 * sum(sum(refused.values()) for _, refused in said), said
    assert all(each for each, _ in said), said
    assert sum(refused.get("untold", 0) for _, refused in said) < sum(done.values()) / 100, said
    with plait.open(url) as sessions:
        sessions.build_search_index()
        assert [
            found for found in sessions.doctor() if found.kind != "stale overlays"
        ] == []  # their messages were deleted
        for info in sessions.list(limit=200).sessions:
            chat = sessions.session(info.id)
            rows = list(chat.everything())
            assert info.totals.messages == len(rows) == len({row.id for row in rows})
            ids = {row.id for row in rows}
            assert all(row.parent_id is None or row.parent_id in ids for row in rows)
            assert info.totals.path_messages == len(list(chat.transcript()))
