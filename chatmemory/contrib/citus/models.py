"""The table of names, distributed by the name."""

from __future__ import annotations

from hashlib import sha256

from django.db import models

from chatmemory.models.conversation_names import NameTexts


class Name(models.Model):
    """A name, and the conversation that has it.

    There is no foreign key: the two rows are on different nodes.
    """

    digest = models.CharField(max_length=64, primary_key=True, help_text="SHA-256 of the name, in hexadecimal digits.")
    conversation_id = models.UUIDField()

    class Meta:
        # Not found by its place: where only chatmemory is installed, an import would give the table to chatmemory.
        app_label = "chatmemory_citus"
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.digest}: {self.conversation_id}"


def digest_of(name: NameTexts) -> str:
    """Return the SHA-256 of a name, in hexadecimal digits. Its texts have no NUL, so no two names are alike."""
    return sha256("\0".join(name).encode()).hexdigest()
