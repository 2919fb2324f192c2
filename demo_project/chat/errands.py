"""The tools that a text needs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from demo_project.chat.sentences import clauses, sentences
from demo_project.chat.tools import calculator, look_up_order

__all__ = ["errands", "is_errand", "lacks_a_number"]

_ORDER = re.compile(
    r"\b(?:orders?|track|parcel|package)\s*(?:order\b)?\s*(?:number|no\.?|#)?\s*"
    r"(\d{1,10}(?:\s*(?:,|and|&)\s*\d{1,10})*)\b",
    re.IGNORECASE,
)
_NO_NUMBER = re.compile(r"\b(?:where|track|look up|status|when)\b.*\b(?:orders?|parcel|package)\b", re.IGNORECASE)

_ASKS_FOR_ARITHMETIC = re.compile(r"\b(?:whats?|how much|calculate|compute|work out)\b|=\s*\??\s*$", re.IGNORECASE)
_NUMBER = r"(?:\d+(?:[.,]\d+)*|\.\d+)(?:e[+-]?\d+)?"
_OPERAND = rf"[(\s]*(?:[-+−][(\s]*)?{_NUMBER}[)\s]*"
_OPERATOR = r"(?:\*\*|//|%\s*of\b|[-+*/%^×÷−]|x|times\b|plus\b|minus\b|divided by\b|percent of\b)"
# The whole expression or none: a part of it would be another question.
_ARITHMETIC = re.compile(
    rf"(?<![\w.,(]){_OPERAND}(?:{_OPERATOR}{_OPERAND})+(?![\w*/%^×÷]|[.,]\d)", re.ASCII | re.IGNORECASE
)
_DATE = re.compile(r"\d{4}-\d{1,2}-\d{1,2}|\d{1,2}([-/])\d{1,2}\1\d{4}", re.ASCII)


def errands(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the tools to call and their arguments, in the order of the text."""
    for clause in (clause for sentence in sentences(text) for clause in clauses(sentence)):
        found = [*_orders(clause), *_expressions(clause)]
        for _place, name, arguments in sorted(found, key=lambda call: call[0]):
            yield name, arguments


def is_errand(clause: str) -> bool:
    """Return whether a clause is about an order or arithmetic."""
    return bool(_ORDER.search(clause) or _ARITHMETIC.search(clause))


def lacks_a_number(text: str) -> bool:
    """Return whether a text asks about an order without its number."""
    return _NO_NUMBER.search(text) is not None


def _orders(clause: str) -> Iterator[tuple[int, str, dict[str, str]]]:
    for match in _ORDER.finditer(clause):
        for number in re.finditer(r"\d+", match[1]):
            yield match.start(1) + number.start(), look_up_order.__name__, {"number": number[0]}


def _expressions(clause: str) -> Iterator[tuple[int, str, dict[str, str]]]:
    rest = _ORDER.sub(lambda match: "\n" * len(match[0]), clause)
    for match in _ARITHMETIC.finditer(rest):
        expression = _balanced(match[0].strip())
        whole = rest.strip(" \n?.!=()") == expression.strip("()")
        if (whole or _ASKS_FOR_ARITHMETIC.search(clause)) and not _DATE.fullmatch(expression):
            yield match.start(), calculator.__name__, {"expression": expression}


def _balanced(expression: str) -> str:
    """Return an expression without the closing parenthesis of the sentence around it: ``(what is 1+1)``."""
    while expression.endswith(")") and expression.count(")") > expression.count("("):
        expression = expression[:-1].rstrip()
    return expression
