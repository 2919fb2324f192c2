"""JSON text as Jackson writes it."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from enum import IntEnum, StrEnum
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatmemory.core.exceptions import InvalidMessageError
from chatmemory.core.json_text import (
    StorableDeltas,
    dumps,
    is_storable,
    java_map_order,
    loads,
    require_json,
    with_replacements,
)
from tests.support.strategies import json_values

PRINTABLE = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E))


class Kind(StrEnum):
    RED = "the red one"


class Number(IntEnum):
    ONE = 1


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (0.1, "0.1"),
        (-2.5, "-2.5"),
        (0.001, "0.001"),
        (0.0001, "1.0E-4"),
        (0.00123, "0.00123"),
        (0.000123, "1.23E-4"),
        (1e-7, "1.0E-7"),
        (9999999.0, "9999999.0"),
        (9999999.5, "9999999.5"),
        (1e7, "1.0E7"),
        (12345678.9, "1.23456789E7"),
        (-1e21, "-1.0E21"),
        (1e100, "1.0E100"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (2.2250738585072014e-308, "2.2250738585072014E-308"),
        (float("nan"), '"NaN"'),
        (float("inf"), '"Infinity"'),
        (float("-inf"), '"-Infinity"'),
    ],
)
def test_doubles_are_written_as_java_does(number: float, text: str) -> None:
    assert dumps(number) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param('"\\', r'"\"\\"', id="quote and backslash"),
        pytest.param("\b\t\n\f\r", r'"\b\t\n\f\r"', id="short escapes"),
        pytest.param("\0\x1f", r'"\u0000\u001F"', id="controls, in upper case"),
        pytest.param("/\x7f\x85\u2028é😀", '"/\x7f\x85\u2028é😀"', id="nothing else"),
        pytest.param("\ud83d", '"\ud83d"', id="half of a pair"),
        pytest.param({'"': 1}, r'{"\"":1}', id="key"),
        pytest.param([None, True, False, 1, "x", [], {}], '[null,true,false,1,"x",[],{}]', id="compact"),
        pytest.param((1, 2), "[1,2]", id="tuple"),
        pytest.param(2**64, "18446744073709551616", id="large integer"),
        pytest.param(Decimal("1.10"), "1.10", id="decimal"),
        pytest.param(Kind.RED, '"RED"', id="text enum by name"),
        pytest.param(Number.ONE, '"ONE"', id="number enum by name"),
        pytest.param(UUID(int=1), '"00000000-0000-0000-0000-000000000001"', id="UUID"),
        pytest.param(b"\x01\x02", '"AQI="', id="bytes"),
    ],
)
def test_writes(value: Any, text: str) -> None:
    assert dumps(value) == text


@pytest.mark.parametrize("value", [date(2026, 1, 2), {1, 2}, object(), 1j, {"a": [object()]}, {1: 2}])
def test_what_has_no_json_form_is_refused(value: Any) -> None:
    with pytest.raises(TypeError):
        dumps(value)


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity"])
def test_a_decimal_that_is_not_finite_becomes_text_as_a_float_does(text: str) -> None:
    assert loads(dumps(Decimal(text))) == text


@pytest.mark.slow
@given(json_values(text=st.text(max_size=20)))
def test_every_json_value_comes_back(value: Any) -> None:
    assert loads(dumps(value)) == value


@pytest.mark.slow
@given(st.recursive(st.integers() | PRINTABLE, lambda inner: st.lists(inner) | st.dictionaries(PRINTABLE, inner)))
def test_plain_data_is_written_as_pythons_json_does(value: Any) -> None:
    assert dumps(value) == json.dumps(value, separators=(",", ":"), ensure_ascii=False)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_float_comes_back_to_the_bit(value: float) -> None:
    assert repr(loads(dumps(value))) == repr(value)


@pytest.mark.parametrize(
    "text", ["", " ", "{", "[1,]", "{'a':1}", "1 2", "NaN", "[Infinity]", "nul", "\ufeff{}", '"\n"']
)
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="JSON"):
        loads(text)


def test_bytes_are_no_text() -> None:
    with pytest.raises(TypeError, match="expected JSON text, got bytes"):
        loads(b"{}")  # type: ignore[arg-type]


def test_the_last_of_two_equal_keys_counts() -> None:
    assert loads('{"a":1,"a":2}') == {"a": 2}


class TestJavaMapOrder:
    def test_no_keys(self) -> None:
        assert java_map_order([]) == []

    @pytest.mark.parametrize(
        ("keys", "order"),
        [
            # "Aa" and "BB" have the same hash code: they stay in the order of insertion.
            pytest.param(["Aa", "BB"], ["Aa", "BB"], id="collision"),
            pytest.param(["BB", "Aa"], ["BB", "Aa"], id="collision the other way round"),
            pytest.param(list("dcba"), list("abcd"), id="letters"),
            # 13 keys need 32 buckets; in 16, "p" (112 = 0 modulo 16) would come first.
            pytest.param(list("ponmlkjihgfed"), list("defghijklmnop"), id="many"),
            # Hash code 0x1F600 as one code point would be another one than that of the two halves.
            pytest.param(["a", "😀"], ["😀", "a"], id="two UTF-16 units"),
        ],
    )
    def test_order_of_a_hash_map(self, keys: list[str], order: list[str]) -> None:
        assert java_map_order(keys) == order

    @pytest.mark.slow
    @given(st.lists(st.text(), unique=True))
    def test_nothing_is_lost(self, keys: list[str]) -> None:
        assert sorted(java_map_order(keys)) == sorted(keys)


# Single UTF-16 units, so that pairs are whole, cut or reversed.
UNITS = st.text(
    st.sampled_from("a\n\0\ud800\ud83c\udbff\udc00\udf75\udfff\ue000\ufffd🍵") | st.characters(), max_size=12
)


def replaced(text: str) -> str:
    """What is stored of a text, one character after the other."""
    found, rest = "", list(text)
    while rest:
        one = rest.pop(0)
        if "\ud800" <= one <= "\udbff" and rest and "\udc00" <= rest[0] <= "\udfff":
            found += chr(0x10000 + (ord(one) - 0xD800) * 0x400 + ord(rest.pop(0)) - 0xDC00)
        else:
            found += "\ufffd" if one == "\0" or "\ud800" <= one <= "\udfff" else one
    return found


class TestStorable:
    @given(UNITS)
    def test_each_character_that_cannot_be_stored_is_replaced(self, text: str) -> None:
        storable = with_replacements(text)
        assert storable == replaced(text)
        assert is_storable(storable)
        assert (storable is text) == is_storable(text)
        nested = {text: [text, {"a": (text, 1, None)}]}
        assert with_replacements(nested) == (
            nested if is_storable(text) else {storable: [storable, {"a": [storable, 1, None]}]}
        )

    @given(UNITS)
    def test_what_is_not_storable_is_refused_from_outside(self, text: str) -> None:
        if is_storable(text):
            require_json([text], "a")
            text.encode()
        else:
            with pytest.raises(InvalidMessageError, match=r"^a\[0\]: has (U\+0000|a lone surrogate)"):
                require_json([text], "a")

    @given(UNITS, st.data())
    def test_deltas_make_the_same_text(self, text: str, data: st.DataObject) -> None:
        deltas, rest = StorableDeltas(), text
        made = ""
        while rest:
            size = data.draw(st.integers(1, len(rest)))
            made += deltas.take("") + deltas.take(rest[:size])
            assert is_storable(made)
            rest = rest[size:]
        assert made + deltas.end() == replaced(text)
        assert deltas.end() == ""
