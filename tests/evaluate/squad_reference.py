"""SQuAD's metrics, written anew in Python, for the tests of `lathe eval --task squad`, and cases by hand for
make_squad_cases.py, which asks the official scripts."""

from __future__ import annotations

import collections
import re
import string

Score = tuple[float, float]


def normalize(text: str) -> str:
    kept = "".join(letter for letter in text.lower() if letter not in set(string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", kept).split())


def overlap(prediction: list[str], answer: list[str]) -> float:
    same = sum((collections.Counter(prediction) & collections.Counter(answer)).values())
    if same == 0:
        return 0.0
    precision, recall = same / len(prediction), same / len(answer)
    return 2 * precision * recall / (precision + recall)


def score_v1(prediction: str, answers: list[str]) -> Score:
    if not answers:
        return 0.0, 0.0
    said = normalize(prediction)
    wanted = [normalize(answer) for answer in answers]
    return max(float(said == each) for each in wanted), max(overlap(said.split(), each.split()) for each in wanted)


def score_v2(prediction: str, answers: list[str]) -> Score:
    wanted = [normalize(answer) for answer in answers if normalize(answer)] or [""]
    said = normalize(prediction)

    def f1(each: str) -> float:
        if not each.split() or not said.split():
            return float(each.split() == said.split())
        return overlap(said.split(), each.split())

    return max(float(said == each) for each in wanted), max(f1(each) for each in wanted)


CASES: list[tuple[str, list[str]]] = [
    ("the Norman conquest", ["Norman Conquest.", "conquest"]),
    ("in the 10th and 11th centuries", ["10th and 11th centuries", "in the 10th and 11th centuries"]),
    ("a", ["the"]), ("", []), ("", ["France"]), ("France", []), ("The", ["an answer"]), ("the the cat", ["cat cat"]),
    ("cat cat dog", ["cat dog dog"]), ("U.S.A.", ["USA", "U S A"]), ("don't", ["dont"]), ("Beyonc\u00e9", ["beyonc\u00c9"]),
    ("\u0395\u03bb\u03bb\u03ac\u03a3", ["\u03b5\u03bb\u03bb\u03ac\u03c2"]), ("\u0130stanbul", ["i\u0307stanbul"]), ("STRASSE", ["stra\u00dfe"]),
    ("10\u2013a\u201320", ["10\u2013 \u201320"]), ("thea an", ["thea"]), ("a_b the_c", ["ab thec"]), ("1,000\u00a0men", ["1000 men"]),
    ("\u65e5\u672c a \u65e5\u672c", ["\u65e5\u672c \u65e5\u672c"]), ("x\u3000y\u2003z\tw\nv", ["x y z w v"]), ("$5.3 billion", ["5.3 billion", "$5 billion"]),
    ("...", ["?!"]), ("a.the.an", ["atheean"]), ("\u00abthe\u00bb end", ["\u00ab \u00bb end"]), ("anthe a1 the2", ["anthe a1 the2"]),
    ("one two three four", ["two three", "four three two one five"]), ("\u041c\u041e\u0421\u041a\u0412\u0410", ["\u043c\u043e\u0441\u043a\u0432\u0430"]),
]
