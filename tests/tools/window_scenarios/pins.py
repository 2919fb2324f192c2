"""Windows with pinned messages."""

from __future__ import annotations

from tests.tools.window_scenarios.scenario import (
    Scenario,
    add,
    clear,
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

CALLS_1 = ("A > weather1", "R weather1 sun")
LARGE = "A > weather1 clock1 news1"
RESULTS = ("R weather1 sun", "R clock1 noon", "R news1 none")
PARALLEL = ("A > weather1 clock1", "R weather1 sun", "R clock1 noon")

SCENARIOS = [
    Scenario(
        "pinned_message_stays",
        "What stands around it leaves.",
        of_messages(4),
        [*talk(1, 1), *pin("U 1"), *talk(2, 4)],
    ),
    Scenario(
        "pinned_result_keeps_its_call",
        "The call and its results are one unit.",
        of_messages(6),
        [*each("U 1", *PARALLEL), *pin("R clock1 noon"), *each("A 1"), *talk(2, 3)],
    ),
    Scenario(
        "pinned_call_keeps_its_results",
        "As the other way round.",
        of_messages(6),
        [*each("U 1", *PARALLEL), *pin("A > weather1 clock1"), *each("A 1"), *talk(2, 3)],
    ),
    Scenario(
        "pinned_call_gets_its_result_later",
        "The result that comes after the pin directly follows the call, and stays with it.",
        of_messages(4),
        [*each("U 1", "A > weather1"), *pin("A > weather1"), *each("R weather1 sun", "A 1", "U 2", "A 2")],
    ),
    Scenario(
        "pinned_late_result_does_not_keep_its_call",
        "It does not directly follow it, so it is a unit of its own.",
        of_messages(4),
        [*each("A > weather1", "U 1", "R weather1 sun"), *pin("R weather1 sun"), *each("A 1", "U 2", "A 2")],
    ),
    Scenario(
        "unpinned_message_leaves",
        "The window takes it the next time that it is full.",
        of_messages(4),
        [*talk(1, 1), *pin("U 1"), *talk(2, 3), *unpin("U 1"), *talk(4, 4)],
    ),
    Scenario(
        "pinned_twice_is_pinned_once",
        "Nothing changes by the second pin, nor by the second time that it is taken off.",
        of_messages(4),
        [*talk(1, 1), *pin("U 1"), *pin("U 1"), *unpin("U 1"), *unpin("U 1"), *unpin("A 1"), *talk(2, 3)],
    ),
    Scenario(
        "pinned_message_before_the_system_message",
        "The system message is the first one that is not skipped, so it is protected.",
        of_messages(4),
        [*each("U 1", "S be kind", "A 1"), *pin("U 1"), *talk(2, 3)],
    ),
    Scenario(
        "pinned_message_behind_the_system_message",
        "Both stay.",
        of_messages(4),
        [*each("S be kind", "U 1"), *pin("U 1"), *each("A 1"), *talk(2, 3)],
    ),
    Scenario(
        "pinned_system_message_lets_the_next_one_be_protected",
        "It is skipped as pinned; the second one is then the first that is not, and is protected as well.",
        of_messages(4),
        [*set_messages("S be kind", "S be brief", "U 1"), *pin("S be kind"), *talk(2, 3)],
    ),
    Scenario(
        "pinned_system_message_in_the_middle",
        "It stays where it is.",
        of_messages(4),
        [*each("U 1", "S be kind", "A 1"), *pin("S be kind"), *talk(2, 3)],
    ),
    Scenario(
        "pinned_system_message_is_replaced",
        "A pin holds against the window only; the new one is not pinned, and leaves from the middle of the memory.",
        of_messages(3),
        [*each("S be kind"), *pin("S be kind"), *each("U 1", "S be brief", "A 1", "U 2", "A 2")],
    ),
    Scenario(
        "pinned_newest_message_with_a_mark",
        "All else leaves to the mark.",
        of_messages(4, low_water=50),
        [*talk(1, 2), *pin("A 2"), *talk(3, 5)],
    ),
    Scenario(
        "pinned_messages_over_the_mark",
        "All that is not pinned leaves but for the newest.",
        of_messages(4, low_water=25),
        [*talk(1, 1), *pin("U 1"), *pin("A 1"), *talk(2, 4)],
    ),
    Scenario(
        "pinned_messages_up_to_half_of_the_limit",
        "Two of four are half of it; a third is refused, and nothing is pinned by that.",
        of_messages(4),
        [*talk(1, 2), *pin("U 1"), *pin("A 1"), *pin("U 2", refused=True), *talk(3, 4)],
    ),
    Scenario(
        "pinned_result_is_refused_for_its_call",
        "The call and two results would be three of five.",
        of_messages(5),
        [*each("U 1", *PARALLEL), *pin("R weather1 sun", refused=True), *pin("U 1")],
    ),
    Scenario(
        "pinned_tokens_up_to_half_of_the_limit",
        "20 tokens are half of 40; 5 more are refused. The request is not counted.",
        of_tokens(40),
        [*each("U one *15", "A two"), *pin("U one *15"), *pin("A two", refused=True), *add("U three *10")],
    ),
    Scenario(
        "pinned_messages_and_a_smaller_window",
        "They may not take more than half of it, so it is refused.",
        of_messages(6),
        [*talk(1, 1), *pin("U 1"), *pin("A 1"), *talk(2, 2), *set_window(limit=3, refused=True), *set_window(limit=4)],
    ),
    Scenario(
        "pinned_answer_and_a_window_of_whole_turns",
        "Its question would stay with it, and both would be more than half.",
        of_messages(3),
        [*talk(1, 1), *pin("A 1"), *set_window(whole_turns=True, refused=True), *talk(2, 3)],
    ),
    Scenario(
        "pinned_call_whose_results_do_not_fit",
        "Nothing of a pinned unit leaves, though it is over the limit; then everything else leaves, the newest too.",
        of_messages(3),
        [*each("U 1", LARGE), *pin(LARGE), *each(*RESULTS, "A 1", "U 2")],
    ),
    Scenario(
        "pinned_call_whose_results_do_not_fit_and_whole_turns",
        "The system message stays beside it.",
        of_messages(4, whole_turns=True, low_water=50),
        [*each("S be kind", "U 1", LARGE), *pin(LARGE), *each(*RESULTS, "A 1", "U 2", "A 2")],
    ),
    Scenario(
        "unpinned_call_whose_results_do_not_fit",
        "The model no longer gets it, and it leaves by the next change.",
        of_messages(3),
        [*each("U 1", LARGE), *pin(LARGE), *each(*RESULTS), *unpin(LARGE), *add("U 2")],
    ),
    Scenario(
        "unpinned_call_whose_results_do_not_fit_and_nothing_new",
        "The same system message again adds nothing, so nothing leaves either.",
        of_messages(4),
        [*each("S be kind", LARGE), *pin(LARGE), *each(*RESULTS), *unpin(LARGE), *add("S be kind")],
    ),
    Scenario(
        "pinned_messages_are_cleared",
        "A pin holds against the window only.",
        of_messages(4),
        [*talk(1, 1), *pin("U 1"), *clear(), *talk(2, 4)],
    ),
    Scenario(
        "pinned_message_stays_pinned_in_a_memory_that_is_set",
        "What is not written again is the same message.",
        of_messages(4),
        [*talk(1, 2), *pin("U 1"), *set_messages("U summary", "U 1", "A 2"), *talk(3, 4)],
    ),
    Scenario(
        "pinned_message_is_left_out_of_a_memory_that_is_set",
        "A pin holds against the window only.",
        of_messages(4),
        [*talk(1, 2), *pin("U 1"), *set_messages("A 1", "U 2", "A 2"), *talk(3, 4)],
    ),
    Scenario(
        "pinned_answer_keeps_its_question",
        "With whole turns, the user message that begins the turn stays with it; the rest of the turn leaves.",
        of_messages(8, whole_turns=True),
        [*each("U 1", *CALLS_1, "A 1"), *pin("A 1"), *talk(2, 4)],
    ),
    Scenario(
        "pinned_answer_does_not_keep_its_question_without_whole_turns",
        "Only units are kept.",
        of_messages(8),
        [*each("U 1", *CALLS_1, "A 1"), *pin("A 1"), *talk(2, 4)],
    ),
    Scenario(
        "pinned_result_keeps_call_and_question",
        "Question, call and result stay; the answer leaves.",
        of_messages(8, whole_turns=True),
        [*each("U 1", *CALLS_1, "A 1"), *pin("R weather1 sun"), *talk(2, 4)],
    ),
    Scenario(
        "pinned_question_stays_without_its_answer",
        "The answer leaves with the turn.",
        of_messages(6, whole_turns=True),
        [*talk(1, 1), *pin("U 1"), *talk(2, 4)],
    ),
    Scenario(
        "pinned_turn_is_passed_over",
        "Of the oldest turn nothing may leave, so the next one leaves.",
        of_messages(6, whole_turns=True),
        [*talk(1, 1), *pin("A 1"), *talk(2, 4)],
    ),
    Scenario(
        "pinned_greeting_has_no_question",
        "No user message begins its turn.",
        of_messages(5, whole_turns=True),
        [*each("A hello", "A how are you"), *pin("A how are you"), *talk(1, 3)],
    ),
    Scenario(
        "pinned_system_message_keeps_the_question_of_its_turn",
        "The turn has a pinned unit.",
        of_messages(5, whole_turns=True),
        [*each("U 1", "S be kind", "A 1"), *pin("S be kind"), *talk(2, 3)],
    ),
    Scenario(
        "pinned_call_of_the_turn_under_way",
        "The next call that is not pinned leaves in its place.",
        of_messages(7, whole_turns=True),
        [
            *each("U 1", *CALLS_1),
            *pin("R weather1 sun"),
            *each("A > weather2", "R weather2 rain", "A > weather3", "R weather3 snow", "A 1"),
        ],
    ),
    Scenario(
        "pinned_last_call_of_the_turn_under_way",
        "The calls before it leave.",
        of_messages(6, whole_turns=True, low_water=60),
        [*each("U 1", *CALLS_1, "A > weather2", "R weather2 rain"), *pin("A > weather2"), *each("A a", "A b", "A c")],
    ),
    Scenario(
        "pinned_interrupted_call",
        "It stays without a result.",
        of_messages(4, whole_turns=True),
        [*each("U 1", "A > weather1"), *pin("A > weather1"), *talk(2, 3)],
    ),
    Scenario(
        "question_of_a_pinned_answer_stays_whatever_the_limit",
        "No turn is left that may leave, so LangChain4j's rule takes the oldest message of the turn under way.",
        of_messages(4, whole_turns=True),
        [*talk(1, 1), *pin("A 1"), *each("U 2", "A a", "A b")],
    ),
    Scenario(
        "pinned_turns_and_a_mark",
        "Both pinned answers stay with their questions.",
        of_messages(10, whole_turns=True, low_water=50),
        [*talk(1, 2), *pin("A 1"), *talk(3, 3), *pin("A 3"), *talk(4, 7)],
    ),
]
