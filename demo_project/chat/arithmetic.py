"""Arithmetic without ``eval``: exact, and bounded in time and space."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable
from fractions import Fraction

__all__ = ["ArithmeticProblem", "calculate"]

_MAX_CHARS = 200
_MAX_BITS = 200
_SIGNS = str.maketrans({"×": "*", "÷": "/", "−": "-", "^": "**"})
_WORDS = {
    r"(?:%|percent)\s*of\b": "/100*",
    r"x|times\b": "*",
    r"divided by\b": "/",
    r"plus\b": "+",
    r"minus\b": "-",
}
_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,])", re.ASCII)
_LEADING_ZEROS = re.compile(r"(?<![\d.])0+(?=\d)", re.ASCII)
_ALLOWED = re.compile(r"(?:[\d\s.+\-*/%()]|(?<=\d)e(?=[+-]?\d))+", re.ASCII | re.IGNORECASE)

_BINARY: dict[type[ast.operator], Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: lambda left, right: Fraction(left // right),
    ast.Mod: operator.mod,
}


class ArithmeticProblem(ValueError):
    """A reason why there is no result, for the user who asked."""


def calculate(expression: str) -> str:
    """Return the value of an expression, as a decimal number.

    Raises:
        ArithmeticProblem: the text is no expression, or its value is too large.
    """
    if len(expression) > _MAX_CHARS:
        raise ArithmeticProblem("that is too long for me")
    text = _in_signs(expression)
    if re.search(r"\d,\d", text):
        raise ArithmeticProblem("please write 1.5 with a point, not with a comma")
    if not _ALLOWED.fullmatch(text):
        raise ArithmeticProblem("only numbers, + - * / % ** and parentheses, please")
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, MemoryError) as error:
        raise ArithmeticProblem("a number or a sign is missing, or one too many") from error
    return _decimal(_value(tree.body))


def _in_signs(expression: str) -> str:
    """Return an expression as Python writes it."""
    text = expression.translate(_SIGNS).strip()
    for words, sign in _WORDS.items():
        text = re.sub(rf"(?<![a-z]){words}", sign, text, flags=re.IGNORECASE)
    text = _THOUSANDS.sub(lambda match: match[0].replace(",", ""), text)
    return _LEADING_ZEROS.sub("", text)


def _value(node: ast.expr) -> Fraction:
    match node:
        case ast.Constant(value=int() | float() as number):
            # A float's digits as they were typed, not the binary fraction beside them.
            return _bounded(_fraction(str(number)))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _value(operand)
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            return _power(_value(left), _value(right))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            try:
                return _bounded(_BINARY[type(op)](_value(left), _value(right)))
            except ZeroDivisionError as error:
                raise ArithmeticProblem("nothing can be divided by zero") from error
    raise ArithmeticProblem("only numbers, + - * / % ** and parentheses, please")


def _fraction(digits: str) -> Fraction:
    try:
        return Fraction(digits)
    except (ValueError, OverflowError) as error:  # such as inf, which is what Python makes of too many digits
        raise ArithmeticProblem("that number is too large for me") from error


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    if exponent.denominator != 1:
        raise ArithmeticProblem("only whole exponents, please")
    # Before it is worked out: 9**9**9 would fill the memory of the machine.
    if abs(exponent) * max(_bits(base) - 1, 1) > _MAX_BITS:
        raise ArithmeticProblem("that number is too large for me")
    if base == 0 and exponent < 0:
        raise ArithmeticProblem("nothing can be divided by zero")
    return _bounded(Fraction(base ** int(exponent)))


def _bits(number: Fraction) -> int:
    return max(number.numerator.bit_length(), number.denominator.bit_length())


def _bounded(number: Fraction) -> Fraction:
    if _bits(number) > _MAX_BITS:
        raise ArithmeticProblem("that number is too large for me")
    return number


def _decimal(number: Fraction) -> str:
    if number.denominator == 1:
        return str(number.numerator)
    return f"{float(number):.12g}"
