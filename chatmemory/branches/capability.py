"""What the other parts of chatmemory know of branches: exports, imports and checks."""

from __future__ import annotations

from chatmemory.capabilities import Capability


class Branches(Capability):
    """Branches are always there. See docs/branches.md."""
