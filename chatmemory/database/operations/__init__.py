"""The changes of a conversation's memory, one verb a module. Each is one transaction."""

from chatmemory.database.operations.add import add
from chatmemory.database.operations.change_window import recount, set_window
from chatmemory.database.operations.clear import clear
from chatmemory.database.operations.erase import erase
from chatmemory.database.operations.rewrite import rewrite

__all__ = ["add", "clear", "erase", "recount", "rewrite", "set_window"]
