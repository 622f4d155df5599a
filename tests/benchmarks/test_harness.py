"""The benchmark harness runs, and its report has every row. What it measures is not judged here."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import plait
from benchmarks import dose, frameworks, langgraph_growth, million, plots, recall, report
from benchmarks.cases import adapters
from benchmarks.goals import Row, rows
from benchmarks.ledger import Ledger
from benchmarks.peers import append_or_note
from benchmarks.run import CASES, measure
from benchmarks.subjects import PlaitSync, Subject
from benchmarks.workload import Item, conversation

pytestmark = pytest.mark.xdist_group("benchmarks")
TINY = replace(dose.TINY, peers=False)


@pytest.fixture(scope="session")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Ledger:
    return measure(TINY, tmp_path_factory.mktemp("bench"))


def test_every_row_is_measured_or_says_why_not(ledger: Ledger) -> None:
    for row in rows(ledger, TINY):
        if row.values:
            assert len(row.values) == 1
            assert all(value >= 0 for value in row.values)
        else:
            assert row.note.startswith(("left out", "not installed")), row.what


def test_plait_itself_is_measured_in_every_row_that_needs_no_peer(ledger: Ledger) -> None:
    unmeasured = [row.what for row in rows(ledger, TINY) if not row.values]
    assert all(any(name in what for name in ledger.absent) for what in unmeasured)


def test_every_measurement_is_named_and_can_be_run_alone(tmp_path: Path) -> None:
    assert len({case.name for case in CASES}) == len(CASES)
    ledger = measure(TINY, tmp_path, only="bytes on disk")
    assert set(ledger.figures) == {"disk 1.6 KB", "disk bytes 1.6 KB", "disk 300 B", "disk bytes 300 B"}
    assert not list(tmp_path.iterdir())


def test_the_table_has_a_line_for_each_row(ledger: Ledger) -> None:
    found = rows(ledger, TINY)
    lines = report.table(found).splitlines()
    assert len(lines) == len(found) + 2
    assert {line.count("|") for line in lines} == {5}
    assert {len(line) for line in lines} == {len(lines[0])}


def test_the_report_is_json_that_says_where_it_was_measured(ledger: Ledger, tmp_path: Path) -> None:
    about = report.machine(tmp_path, TINY.rounds)
    report.write_json(tmp_path / "results.json", about, rows(ledger, TINY), ledger)
    whole = json.loads((tmp_path / "results.json").read_text("utf-8"))
    assert whole["machine"]["sqlite"]
    assert len(whole["rows"]) == len(rows(ledger, TINY))


def test_the_page_keeps_its_words_around_the_new_table(ledger: Ledger, tmp_path: Path) -> None:
    page = tmp_path / report.PARTS["measured"][0]
    page.parent.mkdir()
    begin, end = report.marks("measured")
    page.write_text(f"before\n\n{begin}\nan earlier run\n{end}\n\nafter\n", encoding="utf-8")
    about = report.machine(tmp_path, TINY.rounds)
    for _ in range(2):
        report.write_docs(tmp_path, about, rows(ledger, TINY), ledger)
    text = page.read_text("utf-8")
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "an earlier run" not in text
    assert text.count("| what ") == 1


@pytest.mark.parametrize("part", sorted(report.PARTS))
def test_the_documentation_has_a_place_for_what_each_command_writes(part: str) -> None:
    text = (Path(report.__file__).parents[1] / report.PARTS[part][0]).read_text("utf-8")
    begin, end = report.marks(part)
    assert text.count(begin) == text.count(end) == 1
    assert text.index(begin) < text.index(end)


def test_a_page_without_that_place_is_left_as_it_was(tmp_path: Path) -> None:
    page = tmp_path / report.PARTS["million"][0]
    page.parent.mkdir()
    page.write_text("no marks here\n", encoding="utf-8")
    with pytest.raises(SystemExit, match="has no part 'million'"):
        report.put(tmp_path, "million", "a table")
    assert page.read_text("utf-8") == "no marks here\n"


def test_a_long_session_is_indexed_appended_to_and_searched(tmp_path: Path) -> None:
    given = {"messages": 300, "session": "chat", "rounds": 1, "each": 3}
    ledger = million.measure(tmp_path, store=None, **given)
    assert all(len(row.values) == 1 for row in million.rows(ledger))
    assert ledger.values("messages", "plait") == [300]
    assert not list(tmp_path.iterdir())


def test_a_long_session_that_is_there_already_is_copied_and_not_changed(tmp_path: Path) -> None:
    store, folder = tmp_path / "there.db", tmp_path / "work"
    folder.mkdir()
    million.made(store, "talk", 40, conversation(10, size=million.SIZE))
    with plait.open(store) as sessions:
        sessions.build_search_index()
    before = store.read_bytes()
    ledger = million.measure(folder, messages=0, store=store, session="talk", rounds=1, each=2)
    assert ledger.values("messages", "plait") == [40]
    assert ledger.values("append, off", "plait")
    assert store.read_bytes() == before
    assert not list(folder.iterdir())


def test_the_pictures_are_drawn_with_their_axes_named(ledger: Ledger, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="pictures need matplotlib")
    drawn = plots.draw_all(tmp_path, ledger, TINY)
    assert len(drawn) == 4
    for path, words in zip(drawn, ("latency (µs)", "appends per second", "time (ms", "bytes in the file"), strict=True):
        assert words in path.read_text("utf-8")


def test_a_growing_thread_is_weighed_after_each_turn_and_drawn(tmp_path: Path) -> None:
    pytest.importorskip("langgraph", reason="needs langgraph")
    grown = langgraph_growth.measure(langgraph_growth.on_plait, 6)
    assert len(grown.sizes) == len(grown.puts) == len(grown.cpu) == 6
    assert grown.sizes == sorted(grown.sizes)
    told = list(langgraph_growth.lines({"plait": grown, "SqliteSaver": "absent: no"}, 6))
    assert [line[:2] for line in told] == [("plait", "6"), ("SqliteSaver", "")]
    pytest.importorskip("matplotlib", reason="pictures need matplotlib")
    drawn = plots.growth(tmp_path / "growth.svg", {"plait": grown}, 2048).read_text("utf-8")
    assert "CPU time of a put (ms)" in drawn
    assert "bytes on disk (MB" in drawn


def test_a_row_is_judged_by_its_median() -> None:
    below = Row("what", "≤", 2, "×", [1.0, 1.5, 9.0])
    assert (below.met, replace(below, bound=1.4).met) == (True, False)
    assert (replace(below, sense="≥").met, replace(below, sense="").met) == (False, None)
    assert replace(below, values=[]).met is None


def test_ratios_are_taken_round_by_round() -> None:
    ledger = Ledger()
    for mine, other in ((2.0, 1.0), (30.0, 10.0)):
        ledger.note("append", "plait", mine)
        ledger.note("append", "raw", other)
    assert ledger.ratios("append", "plait", "raw") == [2.0, 3.0]


def test_the_workload_is_the_same_every_time() -> None:
    items = conversation(400)
    assert items == conversation(400)
    assert 1_200 < sum(len(item.text) for item in items) / len(items) < 2_000
    assert {len(item.text) for item in conversation(20, size=300)} == {300}


BESIDE = sorted({kind for group in adapters.GROUPS for kind in (group.ours, *group.theirs)}, key=lambda kind: kind.name)


@pytest.mark.filterwarnings("ignore")  # what frameworks say about each other
@pytest.mark.parametrize("kind", BESIDE, ids=lambda kind: kind.name)
async def test_a_store_under_a_framework_answers_what_it_was_given(kind: type[Subject], tmp_path: Path) -> None:
    store, items = kind(), conversation(9, seed=3)
    try:
        await store.open(tmp_path / "store.db", "strict")
        await adapters.seed(store, items[:6])
    except ImportError as absent:
        pytest.skip(f"needs {absent.name}")
    for item in items[6:]:
        await store.append("chat", item)
    await store.append("other", items[0])
    whole = await store.load("chat")
    assert [_text(message) for message in whole] == [item.text for item in items]
    assert await store.last("chat", 4) == whole[-4:]
    await store.close()


def _text(message: Any) -> str:
    """What is said in a message of whatever framework."""
    if isinstance(message, dict):
        return str(message["content"])
    return str(message.content.parts[0].text if hasattr(message.content, "parts") else message.content)


async def test_an_append_that_a_peer_gives_up_is_noted_and_one_of_plaits_is_not_hidden() -> None:
    class Locked(PlaitSync):
        name = "locked"

        async def append(self, session: str, item: Item) -> None:
            raise OSError("database is locked")

    ledger, item = Ledger(), conversation(1)[0]
    with pytest.raises(OSError, match="locked"):
        await append_or_note(ledger, Locked(), "chat", item)
    assert report.failures(ledger) == ""
    Locked.__module__ = "benchmarks.peers"
    assert not await append_or_note(ledger, Locked(), "chat", item)
    assert "locked 1 (OSError)" in report.failures(ledger)


@pytest.mark.filterwarnings("ignore")
def test_a_framework_is_measured_or_named_as_absent(tmp_path: Path) -> None:
    pytest.importorskip("agents", reason="needs openai-agents")
    ledger = frameworks.measure(TINY, tmp_path, "OpenAI")
    told = list(frameworks.lines(ledger, TINY))
    assert {len(line) for line in told} == {len(frameworks.HEADINGS)}
    headings = [line for line in told if line[0].startswith("**")]
    assert len(headings) == sum(len(group.theirs) for group in adapters.GROUPS)
    assert [line[1] for line in headings].count("not asked for") == len(headings) - 1
    assert len(told) - len(headings) == len(adapters.MEASURES) + len(frameworks.RATES)


def test_recall_is_told_by_script_and_is_whole_but_for_what_the_page_names() -> None:
    chance = random.Random(1)
    texts = recall.corpus(chance, 150)
    lines = {line[0]: line for line in recall.measured(texts, list(recall.asked(chance, texts, 8)))}
    named = {"Latin, strokes: a word", "words with a soft hyphen", "index over text", "all"}
    assert named < set(lines)
    for kind, (_, queries, ours, *_others) in lines.items():
        assert kind in named or (ours.startswith("1.000 / ") and int(queries)), lines[kind]
    assert not lines["Chinese: a piece"][3].startswith("1.000")
