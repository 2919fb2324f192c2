"""The Django app."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.apps import AppConfig
from django.core.checks import register
from django.utils.translation import gettext_lazy as _

if TYPE_CHECKING:
    from chatmemory.database.conversation_memory import ConversationMemory


class ChatmemoryConfig(AppConfig):
    """The app: ``"chatmemory"`` in ``INSTALLED_APPS``."""

    name = "chatmemory"
    verbose_name = _("Chat memory")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        # Models can be imported only now.
        from chatmemory.branches.capability import Branches
        from chatmemory.branches.methods import METHODS
        from chatmemory.capabilities import register as register_capability
        from chatmemory.checks import check_apps, check_authentication, check_databases, check_settings
        from chatmemory.core.asynchronous import set_thread_needs
        from chatmemory.database.connections import ConnectionNeeds
        from chatmemory.models import Conversation

        def memory(conversation: Conversation) -> ConversationMemory:
            # This imports all operations, which a command or a worker may never need.
            from chatmemory.database.conversation_memory import ConversationMemory

            Conversation.add_to_class("memory", property(ConversationMemory))  # skips this property from now on
            return ConversationMemory(conversation)

        register(check_settings)
        register(check_apps)
        register(check_authentication)
        register(check_databases)
        Conversation.add_to_class("memory", property(memory))
        for name, method in METHODS.items():
            Conversation.add_to_class(name, method)
        register_capability(Branches())
        set_thread_needs(ConnectionNeeds())
