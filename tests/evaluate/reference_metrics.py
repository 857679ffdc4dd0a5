"""The metrics of `lathe eval`, written out plainly: reads {"reference", "subject", "outcomes"}, prints the figures.

Integer and fraction arithmetic where it is exact, math.fsum elsewhere; no third-party package.
"""

import json
import math
import sys
from fractions import Fraction


def softmax(row):
    greatest = max(row)
    weights = [math.exp(value - greatest) for value in row]
    total = math.fsum(weights)
    return [weight / total for weight in weights]


def kl(reference, subject):
    pairs = zip(softmax(reference), softmax(subject))
    return math.fsum(p * (math.log(p) - math.log(q)) for p, q in pairs if p > 0)


def cosine(x, y):
    dot = math.fsum(a * b for a, b in zip(x, y))
    return dot / math.sqrt(math.fsum(a * a for a in x)) / math.sqrt(math.fsum(b * b for b in y))


def wilson(successes, trials):
    """The two roots in p of (successes/trials - p)^2 = z^2 p (1 - p) / trials."""
    z2 = 1.959963984540054**2
    share = successes / trials
    a, b, c = 1 + z2 / trials, -(2 * share + z2 / trials), share * share
    root = math.sqrt(max(0.0, b * b - 4 * a * c))
    return [(-b - root) / (2 * a), (-b + root) / (2 * a)]


def mcnemar(only_reference, only_subject):
    n, k = only_reference + only_subject, min(only_reference, only_subject)
    if n == 0:
        return [1.0, 1.0]
    tail = Fraction(sum(math.comb(n, i) for i in range(k + 1)), 2**n)
    at = Fraction(math.comb(n, k), 2**n)
    return [float(min(Fraction(1), 2 * tail)), float(min(Fraction(1), 2 * tail - at))]


def newcombe(both, only_reference, only_subject, neither):
    n = both + only_reference + only_subject + neither
    p1, p2 = (both + only_subject) / n, (both + only_reference) / n
    l1, u1 = wilson(both + only_subject, n)
    l2, u2 = wilson(both + only_reference, n)
    margins = (both + only_subject) * (only_reference + neither) * (both + only_reference) * (only_subject + neither)
    phi = 0.0
    if margins:
        det = both * neither - only_reference * only_subject
        phi = (max(det - n / 2, 0) if det > 0 else det) / math.sqrt(margins)
    low = (p1 - l1) ** 2 - 2 * phi * (p1 - l1) * (u2 - p2) + (u2 - p2) ** 2
    high = (u1 - p1) ** 2 - 2 * phi * (u1 - p1) * (p2 - l2) + (p2 - l2) ** 2
    return [p1 - p2 - math.sqrt(low), p1 - p2 + math.sqrt(high)]


def main():
    case = json.load(sys.stdin)
    reference, subject = case["reference"], case["subject"]
    flat = [(a, b) for x, y in zip(reference, subject) for a, b in zip(x, y)]
    signal = math.fsum(a * a for a, _ in flat)
    noise = math.fsum((a - b) ** 2 for a, b in flat)
    print(
        json.dumps(
            {
                "mean_kl": math.fsum(map(kl, reference, subject)) / len(reference),
                "sqnr_db": 20 * math.log10(math.sqrt(signal) / math.sqrt(noise)),
                "cosine": math.fsum(map(cosine, reference, subject)) / len(reference),
                "max_abs_error": max(abs(a - b) for a, b in flat),
                "mcnemar": [mcnemar(o[1], o[2]) for o in case["outcomes"]],
                "newcombe": [newcombe(*o) for o in case["outcomes"]],
                "wilson": [wilson(o[0] + o[2], sum(o)) for o in case["outcomes"]],
            }
        )
    )


main()
