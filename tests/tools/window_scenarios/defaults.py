"""Windows with the settings that LangChain4j has: nothing is different from it."""

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

SCENARIOS = [
    Scenario(
        "defaults_evict_the_oldest",
        "One message more than the limit pushes one out.",
        of_messages(3),
        talk(1, 3),
    ),
    Scenario(
        "defaults_a_full_window_is_not_too_full",
        "A total that is the limit evicts nothing: three messages of 5 tokens and 3 for the request are 18.",
        of_tokens(18),
        each("U one", "A two", "U three", "A four"),
    ),
    Scenario(
        "defaults_results_leave_with_their_call",
        "The results that directly follow the call are orphans.",
        of_messages(4),
        each("U 1", "A > weather1 clock1", "R weather1 sun", "R clock1 noon", "A 1", "U 2"),
    ),
    Scenario(
        "defaults_protect_the_system_message_at_the_front",
        "What stands behind it leaves in its place.",
        of_messages(3),
        [*add("S be kind"), *talk(1, 2)],
    ),
    Scenario(
        "defaults_a_system_message_in_the_middle_is_protected_once_it_is_at_the_front",
        "The user message before it leaves; then the one behind it.",
        of_messages(3),
        [*set_messages("U 1", "S be kind", "U 2"), *each("A 2", "U 3")],
    ),
    Scenario(
        "defaults_the_newest_leaves_if_it_does_not_fit",
        "A message larger than the window leaves at once, after all the others.",
        of_tokens(30),
        each("U one", "A two", "U three *40"),
    ),
    Scenario(
        "defaults_limit_1",
        "Only the newest stays.",
        of_messages(1),
        talk(1, 2),
    ),
    Scenario(
        "defaults_limit_1_with_a_system_message",
        "The system message takes the only place.",
        of_messages(1),
        each("S be kind", "U 1", "A 1"),
    ),
    Scenario(
        "defaults_only_the_system_message_over_the_limit",
        "It stays, and everything else leaves.",
        of_tokens(20),
        each("S be kind *40", "U one", "A two"),
    ),
    Scenario(
        "defaults_a_result_whose_call_has_left_stays",
        "A late result is like any other message, for nothing looks for its call.",
        of_messages(2),
        each("A > weather1", "U 1", "A 1", "R weather1 sun"),
    ),
    Scenario(
        "defaults_a_new_system_message_replaces_the_old_one",
        "The old one leaves as replaced, the new one stands at the end.",
        of_messages(3),
        each("S be kind", "U 1", "S be brief", "S be brief", "A 1", "U 2"),
    ),
    Scenario(
        "defaults_a_smaller_window_evicts_at_once",
        "A wider one brings nothing back.",
        of_messages(6),
        [*talk(1, 3), *set_window(limit=2), *set_window(limit=6), *talk(4, 4)],
    ),
    Scenario(
        "defaults_clear_and_begin_again",
        "Whatever is there leaves as cleared; nothing is left to clear then.",
        of_messages(3),
        [*add("S be kind"), *talk(1, 1), *clear(), *clear(), *talk(2, 3)],
    ),
    Scenario(
        "defaults_set_evicts_what_does_not_fit",
        "What stays is not written again; what is new may leave at once.",
        of_messages(3),
        [*talk(1, 1), *set_messages("U summary", "U 1", "A 1", "U 2")],
    ),
]
