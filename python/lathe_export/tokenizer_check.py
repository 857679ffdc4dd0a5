"""Whether OpenVINO Tokenizers' graph of a tokenizer gives the tokens of Hugging Face's own: compared on texts at export."""

from __future__ import annotations

from typing import Any

from .errors import ExportError

WORDS = (
    "the quiet film", "The QUIET Film", "WORDS IN CAPITALS", "snake_case CamelCase kebab-case", "a", "0", "it's", "don't, won't; can't!", "a.b.c", "...",
    "?!?!", "(x) [y] {z} \"q\"", "C++ & C#", "~`@#^*+=|\\/", "1,234.56", "2024-01-31", "50 % of $9.99, €10 or £8", "me@example.org https://example.org/a?b=c",
)
SPACES = (
    " leading", "trailing ", "  two  inside  ", "\ttab\tinside\t", "tab\t\ttwo", "line\nbreak", "\r\nlines\r\n", "no\u00a0break", "wide\u3000space", "\u2028separated\u2029",
    " ", "",
)
UNICODE = (
    "naïve café Über", "Ångström ÉCOLE", "e\u0301 is two characters", "straße STRASSE", "κύριος ΟΔΟΣ", "Привет, мир", "日本語 テスト", "中文测试", "한국어", "العربية", "हिन्दी",
    "İstanbul ı", "ſ µ ϐ", "\u01c4 \u01c5 \u01c6", "½ ² ﬁ ①", "“quotes” ‘single’ «x» – dash…", "\U0001f600 smile", "\U0001f469\u200d\U0001f469\u200d\U0001f467 family", "x\u200dy\u00adz", "\ufeffmark",
)
PAIRS = (("the quiet film", "a moving film"), ("x", "The QUIET Film, isn't it?"), ("naïve café", "日本語"))


def texts_for(length: int) -> list[str]:
    """Texts of many kinds; the last ones are one long word, and more than `length` tokens."""
    return [*WORDS, *SPACES, *UNICODE, "A" * 150, "the quiet film, " * (length // 3 + 1)]


def refuse_differences(converted: Any, tokenizer: Any, length: int, where: str) -> None:
    """`converted` is a graph of openvino_tokenizers with one input or, for pairs, two."""
    import openvino

    graph = openvino.compile_model(converted, "CPU")
    samples = PAIRS if len(converted.inputs) == 2 else [(text,) for text in texts_for(length)]
    for sample in samples:
        expected = tokenizer(*sample, truncation=True, max_length=length)
        given = graph({number: [text] for number, text in enumerate(sample)})
        kept = given["attention_mask"][0].astype(bool)
        for name in ("input_ids", "token_type_ids"):
            if name not in expected or name not in [output.get_any_name() for output in converted.outputs]:
                continue
            tokens = given[name][0][kept].tolist()
            if tokens != expected[name]:
                raise ExportError(
                    "unsupported",
                    f"OpenVINO Tokenizers gives other {name} than Hugging Face's own tokenizer for {_shown(sample)}: {_around(tokens, expected[name])}",
                    where, "export with --no-tokenizer and give arrays as data",
                )


def _shown(sample: tuple[str, ...]) -> str:
    return " and ".join(ascii(text if len(text) <= 40 else text[:39] + "…") for text in sample)


def _around(tokens: list[int], expected: list[int]) -> str:
    """The two lists from a little before where they part."""
    first = next((i for i, (a, b) in enumerate(zip(tokens, expected)) if a != b), min(len(tokens), len(expected)))
    start = max(first - 2, 0)
    return f"{tokens[start:start + 8]} in place of {expected[start:start + 8]}" + (f" from token {start} on" if start else "")
