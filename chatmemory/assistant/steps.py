"""The steps of a turn, which ``chatmemory.assistant.turn`` does in sync or async code."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeAlias

from chatmemory.assistant.errors import (
    ContextTooLongError,
    ConversationBusyError,
    ModelError,
    NothingSaidError,
    TooManyToolInvocationsError,
    WindowTooSmallError,
)
from chatmemory.assistant.lease import Added, Lease
from chatmemory.assistant.model import Answered
from chatmemory.assistant.tool_arguments import ToolContext
from chatmemory.core.exceptions import gettext_noop as _
from chatmemory.core.messages import (
    AiMessage,
    ChatMessage,
    SystemMessage,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.core.summaries import is_summary_text

if TYPE_CHECKING:
    from chatmemory.capabilities import Recalled
    from chatmemory.database.change import Change, Target
    from chatmemory.database.reading import MemoryBound
    from chatmemory.models import Conversation

Recall: TypeAlias = "Callable[[Conversation, UserMessage, int], Recalled | None]"
"""A function of a conversation, of a message of the user, and of the maximum number of tokens."""

GoBack: TypeAlias = "Callable[[Target], Change]"
"""A function that goes back in a conversation, whose turn its caller has."""

# Between tries to have the turn, in seconds.
_FIRST_PAUSE = 0.01
_LONGEST_PAUSE = 0.5

_INTERRUPTED = "The call was interrupted. Whether it had an effect is not known."


@dataclass(frozen=True)
class Do:
    """Call a function that uses the memory; the outcome is what it returns."""

    work: Callable[[], Any]


@dataclass(frozen=True)
class Pause:
    """Wait; there is no outcome."""

    seconds: float


@dataclass(frozen=True)
class Ask:
    """Ask the model; the outcome is its answer, as ``Answered``, or a ``ContextTooLongError``."""

    messages: list[ChatMessage]


ToolCall: TypeAlias = "tuple[ToolExecutionRequest, ToolContext | None]"
"""A call, and the caller, for the tool; None if the tool does not ask for it."""


@dataclass(frozen=True)
class RunTools:
    """Run tools; the outcome is the list of their results, in the order of the calls."""

    calls: list[ToolCall]


Steps: TypeAlias = Generator["Do | Pause | Ask | RunTools | Added | AiMessage", Any, None]
"""A generator of steps, which is sent the outcome of each. ``Added`` only reports; the last item is the answer."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The task of a turn."""

    system_message: SystemMessage | None
    message: UserMessage | None
    """The user's message; None to go on from where the conversation stands."""

    idempotency_key: str | None
    max_invocations: int
    wait_timeout: float
    needs_context: Callable[[ToolExecutionRequest], bool]
    """Whether the tool that is called wants to know who calls."""

    model: str = ""
    """The name of the model."""

    tools: str = ""
    """The definitions of the tools, as JSON."""

    answer_tokens: int = 0
    """The tokens to keep free for the answer."""

    recall: Recall | None = None
    """Looks up what the model gets with the message that it answers."""

    context: Any = None
    """The data that the caller has for tools."""

    written_by: str = ""
    """The value of ``Message.written_by`` for the user's message."""

    most: MemoryBound | None = None
    """The largest memory that the user's message, with what comes before it, may find or leave."""

    also: Callable[[Change], None] | None = None
    """Called in the transaction that adds the user's message."""

    go_back: GoBack | None = None
    """Goes back in the conversation first, in the transaction that adds the user's message."""


def turn_steps(turn: Lease, plan: Plan, runs_together: Callable[[], bool]) -> Steps:
    """Yield the steps from waiting for the turn to the answer. The caller releases the turn, however they end.

    Args:
        turn: the turn.
        plan: its task.
        runs_together: returns whether the tools of one answer run at the same time, rather than one after the other.
    """
    yield from _take(turn, plan.wait_timeout)
    opening = yield from _open(turn, plan)
    if opening.answer is not None:
        yield opening.answer
        return
    turn.answers = opening.key
    question = opening.question
    results: list[ToolExecutionResultMessage] = []
    beside = _Beside()
    for invocations in range(plan.max_invocations + 1):
        result = results[-1] if results else None
        question, answered = yield from _ask(turn, plan, beside, question, result, invocations > 0)
        yield Do(partial(turn.calibrate, plan.model, answered.usage))
        answer = answered.message
        if not isinstance(answer, AiMessage):
            raise TypeError(f"the model must return an AiMessage, but returned: {type(answer).__name__}")
        if not (answer.text or answer.tool_execution_requests):
            raise ModelError(_("The model returned an empty answer: neither text nor a call of a tool."))
        if answer.tool_execution_requests and invocations == plan.max_invocations:
            break
        if not answer.tool_execution_requests:
            added: Added = yield Do(partial(turn.add, [answer], answers=turn.answers, ends=True))
            yield Do(partial(turn.tell_called, added))
            yield replace(added, usage=answered.usage)
            yield answer
            return
        # Before the tools run: without a record of the calls, their effects could be repeated.
        added = yield Do(partial(turn.add, [answer]))
        yield Do(partial(turn.tell_called, added))
        yield replace(added, usage=answered.usage)
        results = []
        requests = answer.tool_execution_requests
        for batch in [requests] if runs_together() else [(request,) for request in requests]:
            yield Do(turn.renew)
            calls: list[ToolCall] = []
            for request in batch:
                context = None
                if plan.needs_context(request):
                    context = yield Do(partial(turn.tool_context, plan.context))
                calls.append((request, context))
            results += yield RunTools(calls)
        yield (yield Do(partial(turn.add, results)))
    raise TooManyToolInvocationsError(
        f"The model called tools {plan.max_invocations} times in a row, and wants to again. "
        "Ask it again if it may go on, or set max_sequential_tools_invocations."
    )


@dataclass
class _Beside:
    """The text beside the memory in the requests of a turn: the same in all of them, so that each begins alike."""

    is_known: bool = False
    recalled: Recalled | None = None

    @property
    def text(self) -> str:
        return "" if self.recalled is None else self.recalled.text


def _ask(
    turn: Lease,
    plan: Plan,
    beside: _Beside,
    question: ChatMessage | None,
    result: ToolExecutionResultMessage | None,
    renews: bool,
) -> Generator[Do | Ask | Added, Any, tuple[ChatMessage, Answered]]:
    """Ask the model; if the request is too long for it, without what was recalled, and then with a smaller memory.

    Returns:
        the message that is answered, and the answer.
    """
    refused: ContextTooLongError | None = None
    while True:
        memory: list[ChatMessage] = yield Do(turn.messages)
        question = _require_answerable(memory, question, result)
        if not beside.is_known:
            beside.is_known = True
            yield from _recall(turn, plan, beside, question)
        request = _with_recalled(memory, question, beside)
        sent: list[ChatMessage] = yield Do(partial(turn.sent, memory, request, plan.tools, beside.text))
        if renews:
            yield Do(turn.renew)
        outcome: Answered | ContextTooLongError = yield Ask(sent)
        if isinstance(outcome, Answered):
            return question, outcome
        renews = True
        if beside.recalled is not None:
            yield Do(partial(turn.recall_refused, beside.recalled))
            beside.recalled = None
            continue
        evicted: Added | None = None if refused is not None else (yield Do(partial(turn.make_room, outcome)))
        if evicted is None:
            raise outcome
        refused = outcome
        yield evicted


def _recall(turn: Lease, plan: Plan, beside: _Beside, question: ChatMessage) -> Generator[Do | Added, Any, None]:
    """Look up what the model gets with the question."""
    if plan.recall is not None and isinstance(question, UserMessage):
        added: Added | None = yield Do(partial(turn.recall, plan.recall, question, plan.tools, plan.answer_tokens))
        if added is not None:
            beside.recalled = added.recalled
            yield added


def _with_recalled(memory: list[ChatMessage], question: ChatMessage, beside: _Beside) -> list[ChatMessage]:
    """Return the memory with what was recalled right before the question: the prompt cache keeps all before it."""
    if beside.recalled is None:
        return memory
    at = max(index for index, message in enumerate(memory) if _is_in([message], question))
    return [*memory[:at], UserMessage(beside.text), *memory[at:]]


def _take(turn: Lease, patience: float) -> Generator[Do | Pause, Any, None]:
    until = time.monotonic() + patience
    longest = _FIRST_PAUSE
    while not (yield Do(turn.try_take)):
        left = until - time.monotonic()
        if left <= 0:
            raise ConversationBusyError(
                f"Another turn of conversation {turn.name} did not end within {patience:g} seconds. Try again."
            )
        yield Pause(min(left, random.uniform(0, longest)))
        longest = min(2 * longest, _LONGEST_PAUSE)


@dataclass(frozen=True)
class _Opening:
    """The beginning of a turn, before the model is asked."""

    answer: AiMessage | None = None
    """The answer, if there is one already."""

    question: ChatMessage | None = None
    """The message to answer; None for the one that the memory stands at."""

    key: str | None = None
    """The idempotency key that the question was added with."""


def _open(turn: Lease, plan: Plan) -> Generator[Do | Added, Any, _Opening]:
    """Add the messages that come before the model is asked."""
    evicted: Added | None = yield Do(
        partial(turn.reserve, plan.model, plan.tools, plan.answer_tokens, recalls=plan.recall is not None)
    )
    if evicted is not None:
        yield evicted
    opening: _Opening
    if plan.go_back is not None:
        *added, opening = yield Do(partial(turn.go_back, plan.go_back, lambda: _collected(_say(turn, plan))))
        yield from added
    else:
        opening = yield from _say(turn, plan)
    return opening


def _collected(steps: Generator[Do | Added, Any, _Opening]) -> list[Any]:
    """Do steps here and now, and return what they yield, and last what they return."""
    found: list[Any] = []
    outcome = None
    while True:
        try:
            step = steps.send(outcome)
        except StopIteration as end:
            return [*found, end.value]
        outcome = step.work() if isinstance(step, Do) else None
        if isinstance(step, Added):
            found.append(step)


def _say(turn: Lease, plan: Plan) -> Generator[Do | Added, Any, _Opening]:
    """Add the user's message, and what comes before it."""
    memory: list[ChatMessage] = yield Do(turn.messages)
    opening: list[ChatMessage] = [*_interrupted(memory)]
    if plan.system_message is not None and plan.system_message not in memory:
        opening.append(plan.system_message)
    if plan.message is None:
        if opening:
            yield (yield Do(partial(turn.add, opening)))
        return _Opening(_last_answer(memory))
    if plan.idempotency_key is None:
        add = partial(turn.add, [*opening, plan.message], written_by=plan.written_by, most=plan.most, also=plan.also)
        yield (yield Do(add))
    key, answer, copy_of, also = plan.idempotency_key, None, None, plan.also
    while key is not None:
        # Alone: on a repeated request the other messages to add may differ, which would conflict with the key.
        add = partial(
            turn.add, [plan.message], key, copy_of=copy_of, written_by=plan.written_by, most=plan.most, also=also
        )
        added: list[Added] = yield Do(partial(_add_in_order, turn, opening, add))
        yield from added
        opening, also = [], None
        answer, copy_of = yield Do(partial(turn.answer_to, added[-1], key))
        if copy_of is None:
            break
        # Another question was asked and answered since, so this one is asked again, once for all later repetitions.
        key = sha256(key.encode()).hexdigest()
    return _Opening(answer, plan.message, key)


def _add_in_order(turn: Lease, opening: Sequence[ChatMessage], add: Callable[[], Added]) -> list[Added]:
    """Add ``opening``, then by ``add`` the user's message, in one transaction: if one is refused, nothing is added."""
    if not opening:
        return [add()]
    added: list[Added] = []

    def add_message() -> Added:
        added[:] = [add()]
        return added[0]

    return [turn.add(opening, then=add_message), *added]


def _interrupted(memory: Sequence[ChatMessage]) -> list[ToolExecutionResultMessage]:
    """Return results for the calls that an interrupted turn left without one."""
    results: Counter[str | None] = Counter()
    for message in reversed(memory):
        if isinstance(message, ToolExecutionResultMessage):
            results[message.id] += 1
        elif isinstance(message, AiMessage):
            unanswered = []
            for request in message.tool_execution_requests:
                if results[request.id]:
                    results[request.id] -= 1
                else:
                    unanswered.append(ToolExecutionResultMessage(request.id, request.name, _INTERRUPTED, is_error=True))
            return unanswered
        else:
            break
    return []


def _last_answer(memory: Sequence[ChatMessage]) -> AiMessage | None:
    """Return the answer that the memory ends with; None if it ends with something else, or with calls of tools.

    Raises:
        NothingSaidError: the memory is empty.
    """
    last = _last(memory)
    if last is None:
        raise NothingSaidError("the conversation is empty; pass a message")
    return last if isinstance(last, AiMessage) and not last.tool_execution_requests else None


def _require_answerable(
    memory: Sequence[ChatMessage], question: ChatMessage | None, result: ToolExecutionResultMessage | None
) -> ChatMessage:
    """Return the message that the model must answer; make sure that it would see this, and the last result of a tool.

    Args:
        memory: the messages that the model would get.
        question: the message that the turn answers; None for the one that the memory stands at.
        result: the last result of a tool in this turn; None if there is none yet.

    Raises:
        WindowTooSmallError: the model would not see the message, or the result, or the call of the result.
    """
    last = _last(memory)
    if question is None and isinstance(last, ToolExecutionResultMessage):
        result = last
    if result is not None:
        calls = {request.id for one in memory if isinstance(one, AiMessage) for request in one.tool_execution_requests}
        if result.id not in calls or not (result in memory or type(result) is type(last)):
            raise WindowTooSmallError(
                _(
                    "The window is too small for a tool call and its results, so the model would not see both. Make "
                    "the window larger, then say it again; if it had an idempotency key, with a new one."
                )
            )
    asked = _opener(memory) if question is None else question
    if asked is not None and _is_in(memory, asked):
        return asked
    if result is not None:
        raise WindowTooSmallError(
            _(
                "The window is too small for this turn: the message that it answers left the memory while tools ran, "
                "so the model would not see what it was asked. Make the window larger, then say it again; if it had "
                "an idempotency key, with a new one."
            )
        )
    raise WindowTooSmallError(
        _(
            "The window is too small for the last message: it left the memory, and the model would not see it. Make "
            "the window larger or the message shorter, then say it again; if it had an idempotency key, with a new "
            "one."
        )
    )


def _opener(memory: Sequence[ChatMessage]) -> ChatMessage | None:
    """Return the message before the calls and results that the memory ends with; None if it is not there.

    A summary of older calls, which may come between, is returned only if there is no other message: the next summary
    replaces it while the turn goes on.
    """
    summary = None
    for message in reversed(memory):
        is_call = isinstance(message, AiMessage) and message.tool_execution_requests
        if is_call or isinstance(message, (ToolExecutionResultMessage, SystemMessage)):
            continue
        if not (isinstance(message, UserMessage) and is_summary_text(message.text or "")):
            return message
        summary = summary or message
    return summary


def _is_in(memory: Sequence[ChatMessage], question: ChatMessage) -> bool:
    if question in memory:
        return True
    # Attributes may come back from a store as other types.
    said = [one.contents for one in memory if isinstance(one, UserMessage)]
    return isinstance(question, UserMessage) and question.contents in said


def _last(memory: Sequence[ChatMessage]) -> ChatMessage | None:
    return next((message for message in reversed(memory) if not isinstance(message, SystemMessage)), None)
