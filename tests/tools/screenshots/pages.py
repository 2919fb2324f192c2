"""The addresses of all pages, by the names of their pictures."""

from __future__ import annotations

from collections.abc import Mapping

from tests.tools.screenshots.states import LONG

__all__ = ["SIGNED_OUT", "WITHOUT_WORDS", "pages_of"]

SIGNED_OUT = {"sign-in": "/sign-in/", "log-in": "/admin/login/"}
"""The pages that are for those who are not signed in."""

WITHOUT_WORDS = ("conversation", "history", "answer", "messages", "conversations", "window")
"""The pages that are taken once more as they are for staff who may not read what messages say."""

_ADMIN = "/admin/chatmemory"


def pages_of(states: Mapping[str, int]) -> dict[str, str]:
    """Return the path of each page, for the conversations with these primary keys by state."""

    def at(state: str, page: str = "change/") -> str:
        return f"{_ADMIN}/conversation/{states[state]}/{page}"

    main = "support-4711"
    plain = {
        "fresh": "fresh",
        "larger": "larger-than-its-window",
        "cleared": "cleared",
        "rewritten": "rewritten",
        "pinned": "pinned",
        "cleared-results": "cleared-results",
        "parallel": "tools-in-parallel",
        "hostile": "hostile",
        "nobody": "no-owner",
        "no-history": "no-history",
        "branches": "branches",
        "long": "long",
        "image-review": "images",
        "coding-invoices": "coding",
        "zh-travel": "chinese",
    }
    return {
        "index": "/admin/",
        "dashboard": f"{_ADMIN}/",
        "dashboard-year": f"{_ADMIN}/?period=12-months",
        "conversations": f"{_ADMIN}/conversation/",
        "conversations-search": f"{_ADMIN}/conversation/?q=order",
        "messages": f"{_ADMIN}/message/",
        "messages-search": f"{_ADMIN}/message/?q=order",
        "conversation": at(main),
        "history": at(main, "change/?view=history"),
        "history-middle": at(main, "change/?position=90"),
        **{f"state-{name}": at(state) for state, name in plain.items()},
        **{
            f"state-{plain[state]}-history": at(state, "change/?view=history")
            for state in (
                *("larger", "rewritten", "parallel", "hostile", "no-history", "image-review", "cleared-results"),
                "branches",
            )
        },
        "long-middle": at("long", f"change/?position={LONG // 2}"),
        "recalled-answer": at("recalled", "memory/?answer=14"),
        "branches-answer": at("branches", "memory/?answer=10"),
        "branches-switch": at("branches", "switch/?position=15"),
        "long-answer": at("long", f"memory/?answer={LONG // 2 + 1}"),
        "answer": at(main, "memory/?answer=176"),
        "answer-against": at(main, "memory/?answer=176&against=140"),
        "version": at(main, "memory/?version=60"),
        "window": at(main, "window/"),
        "window-compared": at(
            main,
            "window/?1-window=tokens&1-limit=1000&2-window=tokens&2-limit=2000&2-low_water=70&2-whole_turns=yes"
            "&3-window=messages&3-limit=20&show=1",
        ),
        "clear": at(main, "clear/"),
        "clear-tool-results": at("parallel", "clear-tool-results/?keep=0"),
        "compact": at("coding-invoices", "compact/"),
        "erase": at(main, "delete/"),
        "log": at(main, "history/"),
        "export-refused": at("video", "export/openai/"),
        "chat": "/",
    }
