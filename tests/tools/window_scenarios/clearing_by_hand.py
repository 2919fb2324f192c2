"""Old tool results that are cleared at once, by the verb of the same name."""

from __future__ import annotations

from tests.tools.window_scenarios.clearing import SUN, THREE_TURNS
from tests.tools.window_scenarios.scenario import (
    Scenario,
    add,
    clear_tool_results,
    each,
    of_messages,
    of_tokens,
    pin,
    talk,
)

__all__ = ["SCENARIOS"]

SCENARIOS = [
    Scenario(
        "clear_tool_results_keeps_the_last_three",
        "By hand, whatever the limit; three are kept by default.",
        of_tokens(1000),
        [
            *each(
                "U one", *[f"A > weather{n}" if not r else f"R weather{n} sun *40" for n in range(5) for r in (0, 1)]
            ),
            *clear_tool_results(),
            *add("U two"),
            *clear_tool_results(),
        ],
    ),
    Scenario(
        "clear_tool_results_keeps_none_but_of_the_turn_under_way",
        "Results of the turn under way stay even so; a second time nothing changes.",
        of_tokens(1000),
        [*THREE_TURNS, *clear_tool_results(keep=0), *clear_tool_results(keep=0)],
    ),
    Scenario(
        "clear_tool_results_in_a_window_of_messages",
        "Tokens say what is smaller there, too.",
        of_messages(20),
        [*THREE_TURNS, *clear_tool_results(keep=0)],
    ),
    Scenario(
        "clear_tool_results_but_of_some_tools",
        "Results of the tools that are excluded stay.",
        of_tokens(1000),
        [
            *each("U one", "A > weather1 clock1", SUN, "R clock1 noon *40", "U two"),
            *clear_tool_results(keep=0, exclude_tools=["weather"]),
        ],
    ),
    Scenario(
        "clear_tool_results_with_another_placeholder",
        "It is not cleared again, though it is longer than the usual one.",
        of_tokens(150, keep_tool_results=0),
        [
            *each("U one", "A > weather1", SUN, "U two"),
            *clear_tool_results(keep=0, placeholder="This result was cleared, ask the tool again if you need it"),
            *clear_tool_results(keep=0),
            *add("U three *115"),
        ],
    ),
    Scenario(
        "clear_tool_results_smaller_than_the_placeholder",
        "Nothing changes.",
        of_tokens(1000),
        [*each("U one", "A > weather1", "R weather1 sun", "U two"), *clear_tool_results(keep=0)],
    ),
    Scenario(
        "clear_tool_results_but_pinned_ones",
        "What is pinned does not give way.",
        of_tokens(1000),
        [*THREE_TURNS, *pin("A > weather1"), *clear_tool_results(keep=0)],
    ),
    Scenario(
        "clear_tool_results_of_nothing",
        "No results, and not even messages.",
        of_tokens(1000),
        [*clear_tool_results(keep=0), *talk(1, 2), *clear_tool_results(keep=0)],
    ),
]
