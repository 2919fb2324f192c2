"""Windows that clear old tool results."""

from __future__ import annotations

from tests.tools.window_scenarios.scenario import (
    Scenario,
    add,
    each,
    of_messages,
    of_tokens,
    pin,
    set_messages,
    set_window,
    unpin,
)

__all__ = ["SCENARIOS"]

ATTRIBUTES = {
    "type": "TOOL_EXECUTION_RESULT",
    "id": "weather1",
    "toolName": "weather",
    "text": "sun" + " word" * 40,
    "attributes": {"degrees": 20},
}
PLACEHOLDER_WITH_ATTRIBUTES = ATTRIBUTES | {"text": "[Old tool result cleared]"}
IMAGE = {
    "type": "TOOL_EXECUTION_RESULT",
    "id": "weather1",
    "toolName": "weather",
    "contents": [{"type": "IMAGE", "image": {"url": "http://x/sun.png"}, "detailLevel": "LOW"}],
}
SUN, RAIN, SNOW = "R weather1 sun *40", "R weather2 rain *40", "R weather3 snow *40"
THREE_TURNS = each("U one", "A > weather1", SUN, "U two", "A > weather2", RAIN, "U three", "A > weather3", SNOW)

SCENARIOS = [
    Scenario(
        "cleared_result_leaves_a_placeholder",
        "The new question is over the limit; the old result gives way, and nothing else has to leave.",
        of_tokens(90, keep_tool_results=0),
        each("U one", "A > weather1", SUN, "A two", "U three *20"),
    ),
    Scenario(
        "cleared_only_over_the_limit",
        "As long as the total is not over the limit, nothing gives way.",
        of_tokens(500, keep_tool_results=0),
        THREE_TURNS,
    ),
    Scenario(
        "cleared_all_at_once",
        "Both old results give way, though one would be enough.",
        of_tokens(170, keep_tool_results=0),
        THREE_TURNS,
    ),
    Scenario(
        "cleared_but_for_the_last",
        "The last two results of the memory are kept, and one of these is of the turn under way.",
        of_tokens(170, keep_tool_results=2),
        THREE_TURNS,
    ),
    Scenario(
        "cleared_none_if_all_are_kept",
        "Messages leave as LangChain4j evicts them.",
        of_tokens(170, keep_tool_results=3),
        THREE_TURNS,
    ),
    Scenario(
        "cleared_never_by_default",
        "Without the setting results leave whole.",
        of_tokens(170),
        THREE_TURNS,
    ),
    Scenario(
        "cleared_none_of_the_turn_under_way",
        "Both results stand behind the last user message.",
        of_tokens(120, keep_tool_results=0),
        each("U one", "A > weather1", SUN, "A > weather2", RAIN, "A two"),
    ),
    Scenario(
        "cleared_none_without_a_user_message",
        "The whole memory is the turn under way.",
        of_tokens(90, keep_tool_results=0),
        each("A > weather1", SUN, "A > weather2", RAIN),
    ),
    Scenario(
        "cleared_before_the_first_user_message",
        "What stands there is a turn, and not the one under way.",
        of_tokens(80, keep_tool_results=0),
        each("A > weather1", SUN, "U one *20"),
    ),
    Scenario(
        "cleared_result_without_its_call",
        "A result gives way wherever its call is.",
        of_tokens(70, keep_tool_results=0),
        each(SUN, "U one *20"),
    ),
    Scenario(
        "cleared_late_result",
        "It counts among the last, wherever its call is: the result of the first call is the last one.",
        of_tokens(155, keep_tool_results=1),
        each("A > weather1", "U one", "A > weather2", RAIN, SUN, "U two *30"),
    ),
    Scenario(
        "cleared_result_larger_than_its_placeholder_by_one_token",
        "A result of as many tokens as its placeholder stays; one of one more gives way.",
        of_tokens(86, keep_tool_results=0),
        each("U one", "A > weather1 clock1", "R weather1 sun *5", "R clock1 noon *5", "U two *12"),
    ),
    Scenario(
        "cleared_result_smaller_than_its_placeholder",
        "It stays as it is, and the oldest message leaves.",
        of_tokens(50, keep_tool_results=0),
        each("U one", "A > weather1", "R weather1 sun", "U two *25"),
    ),
    Scenario(
        "cleared_errors_stay_errors",
        "The placeholder of an error is marked as one.",
        of_tokens(85, keep_tool_results=0),
        each("U one", "A > weather1", "E weather1 storm *40", "U two *20"),
    ),
    Scenario(
        "cleared_attributes_are_gone",
        "A placeholder has none.",
        of_tokens(85, keep_tool_results=0),
        each("U one", "A > weather1", ATTRIBUTES, "U two *20"),
    ),
    Scenario(
        "cleared_not_for_attributes_alone",
        "Attributes cost nothing, so a result with the placeholder's text stays as it is.",
        of_tokens(55, keep_tool_results=0),
        each("U one", "A > weather1", PLACEHOLDER_WITH_ATTRIBUTES, "U two *25"),
    ),
    Scenario(
        "cleared_image",
        "A placeholder is text, whatever the result was.",
        of_tokens(120, keep_tool_results=0),
        each("U one", "A > weather1", IMAGE, "U two *20"),
    ),
    Scenario(
        "cleared_parallel_results",
        "Each gives way at its own place.",
        of_tokens(150, keep_tool_results=0),
        each("U one", "A > weather1 clock1", SUN, "R clock1 noon *40", "U two *20"),
    ),
    Scenario(
        "cleared_one_of_two_parallel_results",
        "The second is the last result.",
        of_tokens(150, keep_tool_results=1),
        each("U one", "A > weather1 clock1", SUN, "R clock1 noon *40", "U two *20"),
    ),
    Scenario(
        "cleared_nothing_in_a_window_of_messages",
        "A placeholder costs as much as the original there.",
        of_messages(4, keep_tool_results=0),
        each("U one", "A > weather1", SUN, "U two", "A two"),
    ),
    Scenario(
        "cleared_and_evicted_in_one_change",
        "A placeholder that leaves in the same change was never stored: its original leaves with its call.",
        of_tokens(60, keep_tool_results=0),
        each("U one", "A > weather1", "R weather1 sun *20", "U two *40"),
    ),
    Scenario(
        "cleared_then_evicted_in_a_later_change",
        "The placeholder leaves as an orphan.",
        of_tokens(85, keep_tool_results=0),
        each("U one", "A > weather1", SUN, "U two *20", "U three *60"),
    ),
    Scenario(
        "cleared_and_evicted_in_one_batch",
        "The second message of the batch clears, the third evicts: for all of it that is one change.",
        of_tokens(85, keep_tool_results=0),
        [*each("U one", "A > weather1", SUN), *add("U two *20", "U three *60")],
    ),
    Scenario(
        "cleared_in_the_batch_that_brings_it",
        "The original comes and leaves in one change, and the placeholder stays.",
        of_tokens(85, keep_tool_results=0),
        add("U one", "A > weather1", SUN, "U two *20"),
    ),
    Scenario(
        "cleared_placeholder_is_not_cleared_again",
        "It is as small as a placeholder.",
        of_tokens(85, keep_tool_results=0),
        each("U one", "A > weather1", SUN, "U two *20", "U three *30"),
    ),
    Scenario(
        "cleared_in_a_memory_that_is_set",
        "A memory that is set anew is treated alike.",
        of_tokens(85, keep_tool_results=0),
        set_messages("U one", "A > weather1", SUN, "U two *20"),
    ),
    Scenario(
        "cleared_placeholder_is_set_again",
        "A client sends back what it got: nothing changes.",
        of_tokens(85, keep_tool_results=0),
        [
            *each("U one", "A > weather1", SUN, "U two *20"),
            *set_messages("U one", "A > weather1", "P weather1", "U two *20"),
        ],
    ),
    Scenario(
        "cleared_by_a_smaller_window",
        "The new settings hold at once.",
        of_tokens(500),
        [*THREE_TURNS, *set_window(keep_tool_results=0), *set_window(limit=160)],
    ),
    Scenario(
        "cleared_but_for_a_pinned_result",
        "What is pinned does not give way.",
        of_tokens(150, keep_tool_results=0),
        [*each("U one", "A > weather1", SUN), *pin(SUN), *each("U two", "A > weather2", RAIN, "U three *30")],
    ),
    Scenario(
        "cleared_but_for_the_results_of_a_pinned_call",
        "The results of a unit are pinned with it.",
        of_tokens(280, keep_tool_results=0),
        [
            *each("U one", "A > weather1 clock1", SUN, "R clock1 noon *40"),
            *pin("A > weather1 clock1"),
            *each("U two", "A > weather2", RAIN, "U three *80"),
        ],
    ),
    Scenario(
        "cleared_once_it_is_no_longer_pinned",
        "The next time that the window is full.",
        of_tokens(150, keep_tool_results=0),
        [*each("U one", "A > weather1", SUN), *pin(SUN), *unpin(SUN), *each("U two *90")],
    ),
    Scenario(
        "cleared_placeholder_is_pinned",
        "It stays, with its call.",
        of_tokens(85, keep_tool_results=0),
        [*each("U one", "A > weather1", SUN, "U two *20"), *pin("P weather1"), *each("U three *40")],
    ),
    Scenario(
        "cleared_before_messages_leave_to_the_mark",
        "Clearing comes first; what is still over the mark leaves then.",
        of_tokens(150, keep_tool_results=1, low_water=60),
        each("U one", "A > weather1", SUN, "U two", "A > weather2", RAIN, "U three *20"),
    ),
    Scenario(
        "cleared_enough_for_the_mark",
        "After clearing the total is not over the mark, so nothing else leaves.",
        of_tokens(85, keep_tool_results=0, low_water=90),
        each("U one", "A > weather1", SUN, "U two *20"),
    ),
]
