"""Processes at work on one session at once: their messages make one chain."""

from __future__ import annotations

import pytest

import plait
from tests.behaviour.programs import run_together
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
