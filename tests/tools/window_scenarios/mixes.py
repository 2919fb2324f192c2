"""Windows with several of the settings at once."""

from __future__ import annotations

from tests.tools.window_scenarios.scenario import (
    Scenario,
    add,
    clear_tool_results,
    each,
    of_messages,
    of_tokens,
    pin,
    set_messages,
    set_window,
    talk,
    unpin,
)

__all__ = ["SCENARIOS"]

ALL = {"low_water": 60, "whole_turns": True, "keep_tool_results": 1}


def asked(number: int, words: int = 30) -> list[str]:
    """A turn with one call."""
    return [
        f"U ask{number}",
        f"A > weather{number}",
        f"R weather{number} sun *{words}",
        f"A told{number}",
    ]


SCENARIOS = [
    Scenario(
        "mix_results_then_turns_then_the_mark",
        "Old results give way first; then whole turns leave, down to the mark.",
        of_tokens(180, **ALL),
        each(*asked(1), *asked(2), *asked(3), "U four *30"),
    ),
    Scenario(
        "mix_clearing_is_enough",
        "After clearing it is not over the mark, and no turn leaves.",
        of_tokens(220, low_water=80, whole_turns=True, keep_tool_results=0),
        each("S be kind", *asked(1), *asked(2), *asked(3, 60), "U four *10"),
    ),
    Scenario(
        "mix_a_long_turn_under_way",
        "Agents: one question, many calls. The calls leave from the oldest on, the question and the last call stay.",
        of_tokens(200, **ALL),
        each(
            "S be kind",
            "U one",
            *[message for n in range(1, 9) for message in (f"A > weather{n}", f"R weather{n} sun *30")],
            "A done",
        ),
    ),
    Scenario(
        "mix_a_long_turn_under_way_after_others",
        "What is before it leaves first.",
        of_tokens(200, **ALL),
        each(
            *asked(1),
            "U two",
            *[message for n in range(2, 8) for message in (f"A > weather{n}", f"R weather{n} sun *30")],
        ),
    ),
    Scenario(
        "mix_pinned_answer_and_cleared_results",
        "The pinned answer keeps its question; the call between them leaves.",
        of_tokens(200, **ALL),
        [*each(*asked(1)), *pin("A told1"), *each(*asked(2), *asked(3), *asked(4))],
    ),
    Scenario(
        "mix_pinned_result_and_cleared_results",
        "The pinned result is not cleared, and keeps call and question.",
        of_tokens(200, **ALL),
        [*each(*asked(1)), *pin("R weather1 sun *30"), *each(*asked(2), *asked(3), *asked(4))],
    ),
    Scenario(
        "mix_unpinned_again",
        "The turn leaves with the others.",
        of_tokens(200, **ALL),
        [
            *each(*asked(1)),
            *pin("R weather1 sun *30"),
            *each(*asked(2), *asked(3)),
            *unpin("R weather1 sun *30"),
            *each(*asked(4), *asked(5)),
        ],
    ),
    Scenario(
        "mix_batch_is_as_one_by_one",
        "Three turns in one batch.",
        of_tokens(180, **ALL),
        [*add(*asked(1), *asked(2), *asked(3)), *add("U four *30")],
    ),
    Scenario(
        "mix_windows_of_messages",
        "Nothing is cleared there; turns leave to the mark.",
        of_messages(10, **ALL),
        each(*asked(1), *asked(2), *asked(3)),
    ),
    Scenario(
        "mix_limit_1",
        "The answer pushes out its question, and so on.",
        of_messages(1, **ALL),
        each(*asked(1), "U two"),
    ),
    Scenario(
        "mix_all_at_once_by_a_smaller_window",
        "One change clears, evicts turns and evicts calls.",
        of_tokens(2000, **ALL),
        [
            *each(
                "S be kind",
                *asked(1),
                *asked(2),
                "U three",
                *[message for n in range(3, 7) for message in (f"A > weather{n}", f"R weather{n} sun *30")],
            ),
            *set_window(limit=150),
        ],
    ),
    Scenario(
        "mix_settings_come_one_after_the_other",
        "None of them evicts by itself, for all fits the limit.",
        of_tokens(320),
        [
            *each("S be kind", *asked(1), *asked(2), *asked(3)),
            *set_window(low_water=50),
            *set_window(whole_turns=True),
            *set_window(keep_tool_results=0),
            *each(*asked(4), *asked(5), "U six *60"),
        ],
    ),
    Scenario(
        "mix_system_message_changes_on_the_way",
        "The new one goes to the front, and the window evicts for it.",
        of_tokens(150, low_water=70, whole_turns=True, keep_tool_results=0, always_keep_system_message_first=True),
        each("S be kind", *asked(1), *asked(2), "S be brief *20", "S be brief *20", "U three"),
    ),
    Scenario(
        "mix_interrupted_call_and_late_result",
        "The user asks before the tool has answered; the result comes into the next turn.",
        of_messages(6, low_water=50, whole_turns=True),
        each("U 1", "A > weather1", "U 2", "R weather1 sun", "A 2", "U 3", "A 3"),
    ),
    Scenario(
        "mix_summary_in_place_of_the_beginning",
        "A client sets a summary; what stays is pinned as it was.",
        of_messages(8, low_water=50, whole_turns=True),
        [
            *talk(1, 3),
            *pin("U 2"),
            *set_messages("S be kind", "U summary", "U 2", "A 2", "U 3", "A 3"),
            *talk(4, 5),
        ],
    ),
    Scenario(
        "mix_cleared_by_hand_and_by_the_window",
        "What was cleared by hand is not cleared again, and leaves with its turn.",
        of_tokens(200, low_water=50, whole_turns=True, keep_tool_results=0),
        [*each(*asked(1), *asked(2)), *clear_tool_results(keep=1), *each(*asked(3, 60), "U four *30")],
    ),
    Scenario(
        "mix_mark_1_with_turns_and_pins",
        "The turn under way, the pinned answer and its question stay.",
        of_messages(6, low_water=1, whole_turns=True),
        [*talk(1, 1), *pin("A 1"), *talk(2, 5)],
    ),
]
