"""Writes golden/squad_cases.json: predictions, answers, and the scores that SQuAD's official scripts give them.

    python make_squad_cases.py evaluate-v1.1.py evaluate-v2.0.py

The scripts are not part of this tree; their SHA-256 goes into the file. Each case is scored by their functions, and all
of them together by the scripts as commands. Version 1.1 stops at a question without answers: its score is null then.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import random
import subprocess
import sys
import tempfile
import unicodedata
from pathlib import Path
from types import ModuleType
from typing import Any

from squad_reference import CASES

WORDS = (
    "the a an The AN A river city Norman king war built north song light people born 1066 10th 3,000 $5.3 U.S. it's don't state-of-the-art "
    "na\u00efve Beyonc\u00e9 caf\u00e9 cafe\u0301 \u00c5ngstr\u00f6m m\u00b2 \u00bd H\u2082O \u2167 \u216b a\u00b2 the\u00b9 a\u0301 the\u0301 an\u093e "
    "\u039f\u0394\u039f\u03a3 \u03a3\u03a3 1\u03a3 \u0391\u03a3'\u0391 \u0391\u03a3. \u0391.\u03a3 \u0391\u0301\u03a3 \u0391\u03a3\u0301 \u0391\u03a3\u00ad\u0391 \u02b0\u03a3 _\u03a3 \u65e5\u03a3 "
    "\u0130stanbul I\u0131 STRASSE stra\u00dfe \u1e9e \u01c5 \u01c4ep \u041c\u043e\u0441\u043a\u0432\u0430 \u0421\u0421\u0421\u0420 \u65e5\u672c \u6771\u4eac\u90fd "
    "\u0928\u092e\u0938\u094d\u0924\u0947 \u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35 \u0661\u0662\u0663 \u05e9\u05dc\u05d5\u05dd \u10d0\u10d1 \u1c90\u1c91 \u13a0\u13a1 \uab70 \U00010400\U00010428 \uff21\uff42\uff43 \uff08\uff09 "
    "\U0001f600 \U0001f469\u200d\U0001f52c \u20ac5 \u00a3 \u00a7 \u2026 \u2014 \u2018a\u2019 \u201cthe\u201d \u00aban\u00bb ... ?! a-b a_b the_ _an (a) a/the an,the"
).split()
SPACES = [" "] * 12 + ["  ", "\t", "\n", "\u00a0", "\u2003", "\u3000", "\u2028", "\u0085", "\x1c", "\x1f", "\u200b", "\ufeff", "\u180e", "", "-", ", "]


def text_of(rng: random.Random, most: int) -> str:
    return "".join(part for _ in range(rng.randint(0, most)) for part in (rng.choice(WORDS), rng.choice(SPACES)))


def changed(rng: random.Random, text: str) -> str:
    """The text as another person may have written it."""
    words = text.split(" ")
    what = rng.randrange(7)
    if what == 0:
        return text.upper()
    if what == 1:
        return text.title()
    if what == 2:
        return " ".join(words[rng.randint(0, len(words)):])
    if what == 3:
        rng.shuffle(words)
        return " ".join(words)
    if what == 4:
        return unicodedata.normalize(rng.choice(["NFC", "NFD", "NFKC"]), text)
    if what == 5:
        return rng.choice(["the ", "A ", "an ", "\"", "("]) + text + rng.choice([".", "", ")", " the"])
    return text


def generated(count: int) -> list[tuple[str, list[str]]]:
    rng = random.Random(20)
    cases = []
    for _ in range(count):
        answers = [text_of(rng, 5) for _ in range(rng.choice([0, 1, 1, 1, 2, 3, 3]))]
        prediction = changed(rng, rng.choice(answers)) if answers and rng.random() < 0.8 else text_of(rng, 4)
        cases.append((prediction, answers))
    # Every kind of character around an article and at the end of a word, one after another.
    for code in range(0x21, 0x3100, 37):
        letter = chr(code)
        cases.append((f"x a{letter} {letter}the \u0391\u03a3{letter} \u0391\u03a3{letter}\u0391 {letter}\u03a3", [f"X {letter.upper()}", letter]))
    return cases


def module_of(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem.replace("-", "_").replace(".", "_"), path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def by_command(script: Path, version: str, cases: list[tuple[str, list[str]]]) -> dict[str, Any]:
    """What the script prints for all cases together, as one paragraph's questions."""
    questions = [{"id": str(i), "question": "?", "answers": [{"text": text, "answer_start": 0} for text in answers]} for i, (_, answers) in enumerate(cases)]
    with tempfile.TemporaryDirectory() as name:
        data, predictions = Path(name, "data.json"), Path(name, "predictions.json")
        data.write_text(json.dumps({"version": version, "data": [{"title": "", "paragraphs": [{"context": "", "qas": questions}]}]}), encoding="utf-8")
        predictions.write_text(json.dumps({str(i): prediction for i, (prediction, _) in enumerate(cases)}), encoding="utf-8")
        done = subprocess.run([sys.executable, str(script), str(data), str(predictions)], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def main() -> None:
    scripts = [Path(argument) for argument in sys.argv[1:3]]
    v1, v2 = (module_of(path) for path in scripts)
    cases = [*CASES, *generated(380)]
    rows = []
    for prediction, answers in cases:
        # As get_raw_scores chooses them.
        counted = [answer for answer in answers if v2.normalize_answer(answer)] or [""]
        rows.append({
            "prediction": prediction, "answers": answers, "normalized": v2.normalize_answer(prediction),
            "v1": [float(v1.metric_max_over_ground_truths(score, prediction, answers)) for score in (v1.exact_match_score, v1.f1_score)] if answers else None,
            "v2": [float(max(score(answer, prediction) for answer in counted)) for score in (v2.compute_exact, v2.compute_f1)],
        })
    answered = [case for case in cases if case[1]]
    document = {
        "made": "by make_squad_cases.py with the official scripts named here, Unicode " + unicodedata.unidata_version,
        "scripts": {path.name: "sha256:" + hashlib.sha256(path.read_bytes()).hexdigest() for path in scripts},
        "totals": {"v1": by_command(scripts[0], "1.1", answered), "v2": by_command(scripts[1], "v2.0", cases)},
    }
    lines = ",\n".join(json.dumps(row) for row in rows)
    text = json.dumps(document, indent=1)[:-2] + ',\n "cases": [\n' + lines + "\n]}\n"
    Path(__file__).with_name("golden").joinpath("squad_cases.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
