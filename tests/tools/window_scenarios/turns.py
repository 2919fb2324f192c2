"""Windows that evict whole turns."""

from __future__ import annotations

from tests.tools.window_scenarios.scenario import (
    Scenario,
    add,
    clear,
    each,
    of_messages,
    of_tokens,
    set_messages,
    set_window,
    talk,
)

__all__ = ["SCENARIOS"]

CALLS_1 = ("A > weather1", "R weather1 sun")
CALLS_2 = ("A > weather2", "R weather2 rain")
CALLS_3 = ("A > weather3", "R weather3 snow")

SCENARIOS = [
    Scenario(
        "whole_turns_question_and_answer_leave_together",
        "The new question pushes out the oldest question and its answer.",
        of_messages(4, whole_turns=True),
        talk(1, 4),
    ),
    Scenario(
        "whole_turns_a_turn_with_calls_leaves_whole",
        "The results are orphans, as always.",
        of_messages(5, whole_turns=True),
        each("U 1", *CALLS_1, "A 1", "U 2", "A 2"),
    ),
    Scenario(
        "whole_turns_no_more_turns_than_needed",
        "One turn is enough, so the second stays.",
        of_messages(6, whole_turns=True),
        talk(1, 4),
    ),
    Scenario(
        "whole_turns_one_large_turn_is_enough",
        "A turn of five messages leaves for one message more.",
        of_messages(8, whole_turns=True),
        [*each("U 1", *CALLS_1, *CALLS_2), *talk(2, 3)],
    ),
    Scenario(
        "whole_turns_down_to_the_mark",
        "Three turns leave at once.",
        of_messages(8, whole_turns=True, low_water=50),
        talk(1, 6),
    ),
    Scenario(
        "whole_turns_mark_between_turns",
        "A turn that is partly over the mark leaves whole.",
        of_messages(8, whole_turns=True, low_water=70),
        talk(1, 5),
    ),
    Scenario(
        "whole_turns_the_turn_under_way_stays_over_the_mark",
        "Without calls nothing of the turn under way leaves, as long as it fits the limit.",
        of_messages(4, whole_turns=True, low_water=25),
        each("U 1", "A 1", "U 2", "A 2", "A 2 again", "A 2 once more"),
    ),
    Scenario(
        "whole_turns_the_turn_under_way_over_the_limit",
        "LangChain4j's rule takes one message after the other, and only to the limit.",
        of_messages(3, whole_turns=True, low_water=30),
        each("U 1", "A a", "A b", "A c", "A d"),
    ),
    Scenario(
        "whole_turns_what_stands_before_the_first_user_message_is_a_turn",
        "A greeting of two messages leaves together.",
        of_messages(4, whole_turns=True),
        each("A hello", "A how are you", "U 1", "A 1", "U 2"),
    ),
    Scenario(
        "whole_turns_a_greeting_behind_the_system_message",
        "The system message is of that turn, but never leaves.",
        of_messages(4, whole_turns=True),
        each("S be kind", "A hello", "A how are you", "U 1", "A 1", "U 2"),
    ),
    Scenario(
        "whole_turns_no_user_message",
        "The whole memory is the turn under way: its oldest call leaves, never the last one.",
        of_messages(5, whole_turns=True),
        each("A hello", *CALLS_1, *CALLS_2, *CALLS_3),
    ),
    Scenario(
        "whole_turns_no_user_message_and_no_calls",
        "LangChain4j's rule, to the limit.",
        of_messages(3, whole_turns=True, low_water=30),
        each("A a", "A b", "A c", "A d", "A e"),
    ),
    Scenario(
        "whole_turns_the_oldest_call_of_the_turn_under_way_leaves",
        "The question stays, and so does the last call.",
        of_messages(5, whole_turns=True),
        each("U 1", *CALLS_1, *CALLS_2, *CALLS_3),
    ),
    Scenario(
        "whole_turns_older_turns_leave_before_calls_of_the_turn_under_way",
        "The turns first, then the calls.",
        of_messages(6, whole_turns=True),
        [*talk(1, 1), *each("U 2", *CALLS_1, *CALLS_2, *CALLS_3, "A 2")],
    ),
    Scenario(
        "whole_turns_calls_leave_to_the_mark",
        "Two calls leave, though one would have made room.",
        of_messages(6, whole_turns=True, low_water=50),
        each("U 1", *CALLS_1, *CALLS_2, *CALLS_3),
    ),
    Scenario(
        "whole_turns_the_last_call_stays_over_the_mark",
        "It is never taken for the mark.",
        of_messages(4, whole_turns=True, low_water=25),
        each("U 1", *CALLS_1, "A 1", "A 1 again"),
    ),
    Scenario(
        "whole_turns_the_last_call_may_leave_for_the_limit",
        "First the question leaves, then the call and its result.",
        of_messages(3, whole_turns=True),
        each("U 1", *CALLS_1, "A a", "A b"),
    ),
    Scenario(
        "whole_turns_a_call_without_a_result_yet_is_the_last",
        "The call that was just made stays; the one before it leaves with its result.",
        of_messages(3, whole_turns=True),
        each("U 1", *CALLS_1, "A > weather2", "R weather2 rain"),
    ),
    Scenario(
        "whole_turns_an_interrupted_call_leaves_as_others",
        "It has no results, and is the oldest call of the turn.",
        of_messages(4, whole_turns=True),
        each("U 1", "A > weather1", *CALLS_2, "A > weather3"),
    ),
    Scenario(
        "whole_turns_an_interrupted_call_leaves_with_its_turn",
        "No result, no orphan.",
        of_messages(3, whole_turns=True),
        each("U 1", "A > weather1", "U 2", "A 2"),
    ),
    Scenario(
        "whole_turns_parallel_calls_leave_with_all_their_results",
        "One call with three results is one unit.",
        of_messages(7, whole_turns=True),
        each("U 1", "A > weather1 clock1 news1", "R clock1 noon", "R weather1 sun", "R news1 none", *CALLS_2, *CALLS_3),
    ),
    Scenario(
        "whole_turns_parallel_calls_are_answered_one_after_the_other",
        "While the last call waits for its results, the call before it leaves; the last one stays whole.",
        of_messages(4, whole_turns=True),
        each("U 1", *CALLS_1, "A > weather2 clock2", "R weather2 rain", "R clock2 noon"),
    ),
    Scenario(
        "whole_turns_late_result_in_an_older_turn",
        "It does not directly follow its call, so it leaves as any message of its turn.",
        of_messages(5, whole_turns=True),
        each("U 1", "A > weather1", "A a moment", "R weather1 sun", "A 1", "U 2"),
    ),
    Scenario(
        "whole_turns_late_result_in_a_later_turn",
        "The turn of its call leaves without it.",
        of_messages(4, whole_turns=True),
        each("U 1", "A > weather1", "U 2", "R weather1 sun", "A 2"),
    ),
    Scenario(
        "whole_turns_late_result_in_the_turn_under_way",
        "Its call leaves without it.",
        of_messages(5, whole_turns=True),
        each("U 1", "A > weather1", "A a moment", "R weather1 sun", *CALLS_2),
    ),
    Scenario(
        "whole_turns_answers_between_calls_stay",
        "Only units with calls leave for the mark in the turn under way.",
        of_messages(7, whole_turns=True, low_water=60),
        each("U 1", "A let me see", *CALLS_1, "A and now", *CALLS_2, "A 1"),
    ),
    Scenario(
        "whole_turns_a_result_without_any_call",
        "A message of its turn.",
        of_messages(3, whole_turns=True),
        each("R weather1 sun", "A a", "U 1", "A 1"),
    ),
    Scenario(
        "whole_turns_system_message_in_the_middle_of_a_turn",
        "The turn leaves around it.",
        of_messages(5, whole_turns=True),
        each("U 1", "S be kind", "A 1", "U 2", "A 2", "U 3", "A 3"),
    ),
    Scenario(
        "whole_turns_a_second_system_message_leaves_with_its_turn",
        "Only the first one of the memory is protected.",
        of_messages(5, whole_turns=True),
        [*set_messages("S be kind", "U 1", "S be brief", "A 1", "U 2"), *each("A 2")],
    ),
    Scenario(
        "whole_turns_system_message_in_the_turn_under_way",
        "LangChain4j's rule takes the question before it, and then protects it at the front.",
        of_messages(2, whole_turns=True),
        each("U 1", "S be kind", "A 1", "A 1 again"),
    ),
    Scenario(
        "whole_turns_system_message_between_a_call_and_its_result",
        "The result no longer follows its call directly.",
        of_messages(4, whole_turns=True),
        each("U 1", "A > weather1", "S be kind", "R weather1 sun", "U 2"),
    ),
    Scenario(
        "whole_turns_only_the_system_message_over_the_limit",
        "All else leaves.",
        of_tokens(30, whole_turns=True),
        each("S be kind *40", "U one", "A two"),
    ),
    Scenario(
        "whole_turns_limit_1",
        "The answer pushes out its question.",
        of_messages(1, whole_turns=True),
        talk(1, 2),
    ),
    Scenario(
        "whole_turns_limit_1_with_a_system_message",
        "Nothing else has room.",
        of_messages(1, whole_turns=True),
        each("S be kind", "U 1", "A 1"),
    ),
    Scenario(
        "whole_turns_limit_2_with_calls",
        "The result does not fit beside question and call, so the question leaves, then the call with its result.",
        of_messages(2, whole_turns=True),
        each("U 1", "A > weather1 clock1", "R weather1 sun", "R clock1 noon"),
    ),
    Scenario(
        "whole_turns_two_questions_in_a_row_are_two_turns",
        "The first one leaves alone.",
        of_messages(3, whole_turns=True),
        each("U 1", "U 1 please", "A 1", "U 2"),
    ),
    Scenario(
        "whole_turns_custom_messages_are_of_their_turn",
        "They leave with it.",
        of_messages(4, whole_turns=True),
        each("C begin", "U 1", "C note", "A 1", "U 2", "A 2"),
    ),
    Scenario(
        "whole_turns_huge_question",
        "The question does not fit the limit, so it leaves after all the others.",
        of_tokens(40, whole_turns=True),
        each("S be kind", "U one", "A two", "U three *60", "A four"),
    ),
    Scenario(
        "whole_turns_huge_result_of_the_last_call",
        "Nothing but LangChain4j's rule makes room: the question leaves, then the call with its result.",
        of_tokens(60, whole_turns=True),
        each("U one", "A > weather1", "R weather1 sun *60", "A two"),
    ),
    Scenario(
        "whole_turns_tokens_of_a_turn",
        "A turn with a large result leaves whole.",
        of_tokens(80, whole_turns=True),
        each("S be kind", "U one", "A > weather1", "R weather1 sun *30", "A two", "U three", "A four *10"),
    ),
    Scenario(
        "whole_turns_switched_on",
        "Nothing leaves by that alone; from then on turns leave.",
        of_messages(4),
        [*talk(1, 2), *set_window(whole_turns=True), *talk(3, 3)],
    ),
    Scenario(
        "whole_turns_switched_off",
        "From then on messages leave.",
        of_messages(4, whole_turns=True),
        [*talk(1, 2), *set_window(whole_turns=False), *talk(3, 3)],
    ),
    Scenario(
        "whole_turns_a_smaller_window",
        "Turns leave until it fits.",
        of_messages(8, whole_turns=True),
        [*talk(1, 4), *set_window(limit=5)],
    ),
    Scenario(
        "whole_turns_set",
        "A memory that is set anew loses whole turns as well.",
        of_messages(3, whole_turns=True),
        set_messages("U 1", "A 1", "U 2", "A 2"),
    ),
    Scenario(
        "whole_turns_batch_is_as_one_by_one",
        "Two turns in one batch.",
        of_messages(5, whole_turns=True),
        add("S be kind", "U 1", *CALLS_1, "A 1", "U 2", *CALLS_2, "A 2"),
    ),
    Scenario(
        "whole_turns_after_clear",
        "Another conversation begins.",
        of_messages(4, whole_turns=True),
        [*talk(1, 2), *clear(), *talk(3, 5)],
    ),
]
