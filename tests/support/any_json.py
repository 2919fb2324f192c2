"""Whatever JSON holds, with what no database does: what strict readers must read or refuse."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.support.strategies import json_values

__all__ = ["any_json", "any_text", "changed"]

any_text = st.text(st.characters(exclude_categories=()), max_size=5)
any_json = json_values(any_text)


def changed(value: Any, data: st.DataObject) -> Any:
    """``value`` with something in it missing, new or another."""
    if not isinstance(value, (dict, list)) or not value or data.draw(st.integers(0, 4)) == 0:
        return data.draw(any_json)
    if isinstance(value, list):
        index = data.draw(st.integers(0, len(value) - 1))
        return [*value[:index], changed(value[index], data), *value[index + 1 :]]
    key = data.draw(st.sampled_from([*value, "new"]))
    if key not in value:
        return value | {data.draw(any_text): data.draw(any_json)}
    if data.draw(st.booleans()):
        return {other: value[other] for other in value if other != key}
    return value | {key: changed(value[key], data)}
