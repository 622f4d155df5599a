"""Work beside the caller: one piece at a time, and what was asked for last is always done."""

from __future__ import annotations

import asyncio
import threading

from plait.pauses import AsyncBackground, AsyncRepeated, Background, Repeated


def test_what_is_asked_for_while_a_thread_works_is_done_after_it() -> None:
    done: list[str] = []
    begun, go_on = threading.Event(), threading.Event()

    def first() -> None:
        begun.set()
        assert go_on.wait(30)
        done.append("first")

    background = Background()
    background.start(first)
    assert begun.wait(30)
    for name in ("second", "third"):
        background.start(lambda name=name: done.append(name))
    assert done == []
    go_on.set()
    background.join()
    assert done == ["first", "third"]
    background.start(lambda: done.append("fourth"))
    background.join()
    assert done == ["first", "third", "fourth"]


async def test_what_is_asked_for_while_a_task_works_is_done_after_it() -> None:
    done: list[str] = []
    go_on = asyncio.Event()

    async def work(name: str) -> None:
        await go_on.wait()
        done.append(name)

    background = AsyncBackground()
    for name in ("first", "second", "third"):
        background.start(lambda name=name: work(name))
        await asyncio.sleep(0)
    go_on.set()
    await background.join()
    assert done == ["first", "third"]
    background.start(lambda: work("fourth"))
    await background.join()
    assert done == ["first", "third", "fourth"]


def test_a_thread_does_it_again_until_it_is_stopped() -> None:
    times, thrice = [0], threading.Event()
    before = set(threading.enumerate())

    def work() -> None:
        times[0] += 1
        if times[0] == 3:
            thrice.set()

    repeated = Repeated()
    repeated.stop()
    repeated.start(work, 0.001)
    assert thrice.wait(30)
    repeated.stop()
    done = times[0]
    assert not {thread for thread in set(threading.enumerate()) - before if thread.name == "plait-repeated"}
    assert times[0] == done


async def test_a_task_does_it_again_until_it_is_stopped_or_fails() -> None:
    times, thrice = [0], asyncio.Event()

    async def work() -> None:
        times[0] += 1
        if times[0] == 3:
            thrice.set()
            raise RuntimeError("enough")

    repeated = AsyncRepeated()
    await repeated.stop()
    repeated.start(work, 0.001)
    await asyncio.wait_for(thrice.wait(), 30)
    await repeated.stop()
    assert times == [3]
