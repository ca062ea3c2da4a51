"""Token F1 of short answers, as the official scripts of CoQA and TopiOCQA compute it.

Normalisation: lower case, no ASCII punctuation, no articles, single spaces. Against several references the score is the
mean, leaving one reference out at a time, of the best F1 against the others: so that a person, who has one reference
less to be compared with, is scored alike (CoQA, Reddy et al. 2019, section 4; its evaluate-v1.0.py).

    >>> token_f1("the 23rd of June, 1964", "june 23rd")
    0.6666666666666666
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def tokens(text: str) -> list[str]:
    """Normalised words of an answer."""
    return _ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split()


def token_f1(reference: str, answer: str) -> float:
    """F1 = 2 |common| / (|reference| + |answer|) over bags of words; if either is empty: 1 when both are, else 0."""
    gold, said = tokens(reference), tokens(answer)
    if not gold or not said:
        return float(gold == said)
    return 2 * sum((Counter(gold) & Counter(said)).values()) / (len(gold) + len(said))


def answer_score(references: Sequence[str], answer: str) -> float:
    """F1 against one reference, or the leave-one-out mean of the best F1 against several.

    Raises:
        ValueError: there is no reference.
    """
    if not references:
        raise ValueError("an answer is scored against at least one reference")
    scores = [token_f1(reference, answer) for reference in references]
    if len(scores) == 1:
        return scores[0]
    return sum(max(scores[:left_out] + scores[left_out + 1 :]) for left_out in range(len(scores))) / len(scores)
