"""What search finds of what is there, by script, beside other ways to index the same texts.

    python -m benchmarks.recall                  # --messages 4000 --queries 40
    python -m benchmarks.recall --docs           # write the table into docs/ too

What is there is told by brute force that knows nothing of plait's words: without accents and case, a query of a
script written with spaces is in a text as whole words, one of a script without spaces (or of emoji) as a piece, and a
query in quotes as words that follow one another. Recall is how much of that an index finds, precision how much
of what it finds is in that; both summed over the queries of a kind.
"""

from __future__ import annotations

import argparse
import random
import re
import tempfile
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import apsw

import plait
from benchmarks import report
from benchmarks.run import say
from plait.logic import words

try:
    import jieba
except ImportError:  # one index less
    jieba = None

ROOT = Path(__file__).parents[1]
PACKAGES: Final = ("apsw", "jieba")

# Words with spaces between; some of them with endings, accents, capitals and strokes.
SPACED: Final = {
    "Latin, plain": "order ship river stone window paper garden number letter market bridge yellow",
    "Latin, accents": "café niño Köln çok façade Ångström smörgås über señor élève naïve Zürich",
    "Latin, strokes": "đường Łódź smørrebrød Øresund żółty płótno Đà złoto brød",
    "Cyrillic": "ёлка заказ Москва поезд книга Андрей счёт дождь город мостовая",
    "Greek": "Σίσυφος καφές ποταμός γέφυρα βιβλίο Αθήνα θάλασσα όνομα",
    "Arabic": "مُحَمَّد كتاب قهوة مدينة الطلب شُكْرًا بحر سماء",
    "Hebrew": "שָׁלוֹם ספר קפה עיר הזמנה ים תּוֹדָה שמיים",
    "Devanagari": "हिन्दी खोज किताब शहर नदी पानी रास्ता समय",
    "identifiers": "POL-358 gen-itgc user_name2 v1.20.3 a@b.example INC0042 src/app.py X-17",
}
SPACELESS: Final = {
    "Chinese": "悬空引用清零重跑后条的一订单发货昨天今天河流石头窗户花园数字信件",
    "Japanese": "日本語のテストを検索注文は昨日届きましたカフェ川石窓庭",
    "Korean": "한국어검색을했다는이가나주문은어제도착강돌창정원",
    "Thai": "กาแฟแม่น้ำหินหน้าต่างสวนตัวเลขจดหมายตลาดสะพาน",
    "emoji": "🎉💡🚀🔥🌊🪨🪟🌷",
}
HYPHENED: Final = ("organi\u00adsation", "over\u00adview", "Wirt\u00adschaft")
"""With soft hyphens, which nobody sees."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A query and how brute force finds it: pieces that stand anywhere, or words that are whole."""

    kind: str
    query: str
    anywhere: bool


# -- the corpus ------------------------------------------------------------------


def corpus(chance: random.Random, count: int) -> list[str]:
    """Messages of one script or of several."""
    texts: list[str] = []
    while len(texts) < count:
        parts = [sentence(chance) for _ in range(chance.choice((1, 1, 2, 4)))]
        texts.append(" ".join(parts))
    return texts


def sentence(chance: random.Random) -> str:
    script = chance.choice([*SPACED, *SPACELESS])
    if script in SPACED:
        return " ".join(chance.choices(SPACED[script].split(), k=chance.randint(2, 9))) + chance.choice(".,!?")
    letters = clusters(SPACELESS[script])
    return "".join(chance.choices(letters, k=chance.randint(2, 14))) + chance.choice(("。", ".", " "))


def clusters(text: str) -> list[str]:
    """Characters, each with the marks that belong to it."""
    found: list[str] = []
    for char in text:
        if found and unicodedata.category(char) in ("Mn", "Mc"):
            found[-1] += char
        else:
            found.append(char)
    return found


# -- queries, and brute force ------------------------------------------------------


def asked(chance: random.Random, texts: list[str], each: int) -> Iterator[Asked]:
    """Queries of each kind, drawn from what is there."""
    for script, known in SPACED.items():
        for word in known.split():
            yield Asked(f"{script}: a word", chance.choice((word, word.lower(), plain(word))), False)
    for script, letters in SPACELESS.items():
        runs = [run for text in texts for run in re.findall(f"[{letters}]+", text)]
        for _ in range(each):
            run = clusters(chance.choice(runs))
            first = chance.randrange(len(run))
            yield Asked(f"{script}: a piece", "".join(run[first : first + chance.randint(1, 4)]), True)
    everything = [word for known in SPACED.values() for word in known.split()]
    for _ in range(each):
        yield Asked("several words", " ".join(chance.sample(everything, 2)), False)
        first, second = chance.sample(chance.choice(list(SPACED.values())).split(), 2)
        yield Asked("words in quotes", f'"{first} {second}"', False)
    for word in HYPHENED:
        yield Asked("words with a soft hyphen", word.replace("\u00ad", ""), False)


def plain(text: str) -> str:
    """Without accents, points and case; letters with a stroke, which Unicode does not take apart, as a reader would."""
    found = unicodedata.normalize("NFKD", text.casefold())
    kept = "".join(char for char in found if unicodedata.category(char) != "Mn" or "\u0900" <= char <= "\u0eff")
    return unicodedata.normalize("NFC", kept).replace("\u00ad", "").translate(str.maketrans("đłø", "dlo"))


def holds(text: str, one: Asked) -> bool:
    """Whether a text has what is asked for, by looking; both are plain."""
    if one.anywhere:
        return one.query in text
    wanted = [one.query.strip('"')] if one.query.startswith('"') else one.query.split()
    return all(re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) for word in wanted)


def truth(texts: list[str], queries: list[Asked]) -> list[set[int]]:
    known = [plain(text) for text in texts]
    return [
        {n for n, text in enumerate(known) if holds(text, Asked(one.kind, plain(one.query), one.anywhere))}
        for one in queries
    ]


# -- the indexes ---------------------------------------------------------------------

Find = Callable[[str], set[int]]


def on_plait(folder: Path, texts: list[str]) -> tuple[Find, int]:
    path = folder / "plait.db"
    sessions = plait.open(path, durability="process")
    chat = sessions.session("s")
    chat.append_many([plait.user(text, id=str(n)) for n, text in enumerate(texts)])
    sessions.build_search_index()

    def find(query: str) -> set[int]:
        return {int(hit.id) for hit in chat.search(query, limit=len(texts), newest_first=True)}

    return find, pages(path, "message_words%")


def on_fts5(
    tokenizer: str, cut: Callable[[str], str] = str, phrase: Callable[[str], str] = '"{}"'.format
) -> Callable[[Path, list[str]], tuple[Find, int]]:
    """Text in FTS5, raw or cut up, asked for each piece between spaces as a phrase."""

    def build(folder: Path, texts: list[str]) -> tuple[Find, int]:
        path = folder / f"{tokenizer.split()[0]}-{cut.__name__}.db"
        database = apsw.Connection(str(path))
        database.execute(f"CREATE VIRTUAL TABLE x USING fts5(words, content='', tokenize='{tokenizer}')")
        with database:
            database.executemany("INSERT INTO x(rowid, words) VALUES (?, ?)", list(enumerate(map(cut, texts), 1)))

        def find(query: str) -> set[int]:
            parts = re.findall(r'"[^"]*"|\S+', query)
            match = " ".join(phrase(part.strip('"')) for part in parts)
            return {row - 1 for (row,) in database.execute("SELECT rowid FROM x WHERE x MATCH ?", (match,))}

        return find, pages(path, "x\\_%")

    return build


RUN: Final = re.compile(f"[{words.SPACELESS}]+")


def pairs(text: str) -> str:
    """Each character of a script without spaces with the one after it, the last alone."""
    return RUN.sub(lambda run: f" {' '.join(run[0][n : n + 2] for n in range(len(run[0])))} ", text)


def pairs_asked(piece: str) -> str:
    """A piece of one character is asked for as the beginning of a pair."""
    cut = RUN.sub(lambda run: " ".join(run[0][n : n + 2] for n in range(max(len(run[0]) - 1, 1))), piece)
    return f'"{cut}"*' if RUN.fullmatch(piece) and len(piece) == 1 else f'"{cut}"'


def dictionary(text: str) -> str:
    """Chinese words, as jieba knows them and finds them in others."""
    return RUN.sub(lambda run: f" {' '.join(jieba.cut_for_search(run[0]))} ", text)


def pages(path: Path, names: str) -> int:
    """Bytes of an index's own tables."""
    with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as database:
        query = "SELECT coalesce(sum(pgsize), 0) FROM dbstat WHERE name LIKE ? ESCAPE '\\'"
        return int(database.execute(query, (names,)).fetchone()[0])


STOCK: Final = "unicode61 remove_diacritics 2"
INDEXES: Final = {
    "plait": on_plait,
    "FTS5 unicode61": on_fts5(STOCK),
    "FTS5 trigram": on_fts5("trigram remove_diacritics 1"),
    "pairs": on_fts5(STOCK, pairs, pairs_asked),
}
if jieba is not None:
    INDEXES["jieba's words"] = on_fts5(STOCK, dictionary, lambda piece: f'"{dictionary(piece)}"')


# -- the table -------------------------------------------------------------------------


@dataclass(slots=True)
class Sum:
    """What was found over some queries."""

    right: int = 0
    found: int = 0
    there: int = 0
    queries: int = 0

    def add(self, found: set[int], there: set[int]) -> None:
        self.right += len(found & there)
        self.found += len(found)
        self.there += len(there)
        self.queries += 1

    def __str__(self) -> str:
        recall = f"{self.right / self.there:.3f}" if self.there else "–"
        precision = f"{self.right / self.found:.3f}" if self.found else "–"
        return f"{recall} / {precision}"


def measured(texts: list[str], queries: list[Asked]) -> list[tuple[str, ...]]:
    """Lines of the table: kinds of queries, then the sizes."""
    expected = truth(texts, queries)
    columns: dict[str, dict[str, Sum]] = {}
    sizes: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        for name, build in INDEXES.items():
            say(name)
            find, size = build(Path(folder), texts)
            sizes.append(f"{size / sum(len(text.encode()) for text in texts):.2f}")
            columns[name] = sums = {}
            for one, there in zip(queries, expected, strict=True):
                found = find(one.query)
                for kind in (one.kind, "all"):
                    sums.setdefault(kind, Sum()).add(found, there)
    kinds = [kind for kind in columns["plait"] if kind != "all"]
    lines = [
        (kind, str(columns["plait"][kind].queries), *(str(sums[kind]) for sums in columns.values()))
        for kind in [*kinds, "all"]
    ]
    return [*lines, ("index over text", "", *sizes)]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recall", description=__doc__)
    parser.add_argument("--messages", type=int, default=4000)
    parser.add_argument("--queries", type=int, default=40, help="of each kind that is drawn at random")
    parser.add_argument("--docs", action="store_true", help="write the table into docs/ too")
    chosen = parser.parse_args(arguments)
    chance = random.Random(7)
    texts = corpus(chance, chosen.messages)
    for n, word in enumerate(HYPHENED * 20):
        texts[n * len(texts) // 60] += f" {word}"
    lines = measured(texts, list(asked(chance, texts, chosen.queries)))
    about = report.machine(Path(tempfile.gettempdir()), 1, PACKAGES)
    told = f"{report.aligned([('recall / precision', 'queries', *INDEXES), *lines])}\n\n{report.heading(about)}"
    print(told)
    if chosen.docs:
        report.put(ROOT, "recall", told)


if __name__ == "__main__":
    main()
