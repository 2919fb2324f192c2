"""The lists of tests that are left out on some databases."""

from __future__ import annotations

from importlib import import_module

import pytest

from tests.support.kept_names import ON_ONE_SERVER_ONLY, WITHOUT_NAMES_ONLY


@pytest.mark.usefixtures("sdks")
@pytest.mark.parametrize("name", [*WITHOUT_NAMES_ONLY, *ON_ONE_SERVER_ONLY])
def test_whatever_is_left_out_is_there(name: str) -> None:
    file, *path = name.split("::")
    found = import_module(file.removesuffix(".py").replace("/", "."))
    for part in path:
        found = getattr(found, part)
    assert callable(found)
