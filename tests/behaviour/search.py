"""What search tests ask: texts of many scripts with pieces of them, and queries that mean harm."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import apsw

SCRIPTS = [
    (
        "重跑gen-itgc后50条悬空引用清零",
        ["悬空", "空", "gen-itgc", "itgc", "50", "后50条", "清零", "悬空 gen", "重跑gen-itgc后50条"],
    ),
    ("日本語のテスト", ["テスト", "テ", "日本", "の", "本語の", "ﾃｽﾄ"]),
    ("한국어 검색을 했다", ["검색", "검", "한국", "색을", "한국어 검색"]),
    ("ภาษาไทยไม่มีช่องว่าง", ["ไทย", "ไม่มี", "ช่อง", "ภ"]),
    ("ຂ້ອຍມັກກາເຟ", ["ກາເຟ", "ມັກ"]),
    ("ខ្ញុំចូលចិត្តកាហ្វេ", ["កាហ្វេ"]),
    ("ကော်ဖီကြိုက်တယ်", ["ကော်ဖီ"]),
    ("𠮷野家で𠀋", ["𠮷", "𠮷野", "𠀋"]),
    ("หน้า README.md ครับ", ["readme", "README.md", "ครับ"]),
    ("हिन्दी में खोज", ["खोज", "हिन्दी"]),
]

HOSTILE = [
    'a" OR 1=1 --',
    '"""',
    'x" NEAR("y", 5) AND col : z*',
    "(((((((((",
    "^^ -- + - * / \\ ' `",
    "\x00null\x00",
    "\ud83d half \udc00",
    "{words} : x",
    "message_words : x",
    "a" * 100_000,
    "w " * 20_000,
    " ".join(f"w{n}" for n in range(5_000)),
    '"' + "phrase " * 20_000 + '"',
    "\u202e\u200d\ufe0f\U000e0001",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f1e6\U0001f1f9",
    "%s %n {0} $1 :words ?1 @x",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 ﷺ ẞ ŉ ĳ",
    "AND",
    "NOT NOT NOT",
    "\n\r\t\v",
]


def rows_in(path: Path, query: str) -> list[Any]:
    """What a query of another program finds in a store's file."""
    with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as database:
        return database.execute(query).fetchall()
