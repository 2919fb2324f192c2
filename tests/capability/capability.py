"""What the app adds to chatmemory."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.db.models import Exists, OuterRef, Q
from django.utils.html import format_html

from chatmemory.capabilities import AdminPage, Capability, Recalled, RecallFigures
from chatmemory.core.messages import SystemMessage
from chatmemory.models import Conversation, Message
from chatmemory.verification import Finding
from tests.capability.models import Thumb


class Thumbs(Capability):
    def changed(self, change):
        database = change.conversation._state.db
        answers = [row for row in change.added if row.type == "AI"]
        Thumb.objects.using(database).bulk_create(
            [Thumb(conversation=change.conversation, position=row.position) for row in answers]
        )

    def export(self, conversation):
        thumbs = Thumb.objects.using(conversation._state.db).filter(conversation=conversation)
        for thumb in thumbs.order_by("position"):
            yield {"position": thumb.position, "up": thumb.up, "comment": thumb.comment}

    def restore(self, conversation, line):
        position, up, comment = line.number("position"), line.flag("up", null=True), line.text("comment")
        thumb = Thumb(conversation=conversation, position=position, up=up, comment=comment)
        return partial(thumb.save, using=conversation._state.db)

    def sent(self, conversation, messages):
        disliked = thumbs_of(conversation).filter(up=False).count()
        return [SystemMessage(f"The user disliked {disliked} answers."), *messages] if disliked else messages

    def erased(self, conversation, positions):
        thumbs_of(conversation).filter(position__in=positions).delete()

    def recall(self, conversation, message, tokens):
        comments = thumbs_of(conversation).exclude(comment="").order_by("position").values_list("comment", flat=True)
        return Recalled(text=f"The user commented: {'; '.join(comments)}") if comments else None

    def replay_recall(self, conversation, variants, *, hits=5, questions=()):
        comments = thumbs_of(conversation).exclude(comment="").count()
        return [RecallFigures(hits=min(hits, comments), questions=len(questions)) for _ in variants]

    def anonymise(self, conversation):
        thumbs_of(conversation).update(comment="")

    def purge(self, conversation, before):
        thumbs_of(conversation).filter(created_at__lt=before).update(comment="")

    def verify(self, conversations, *, repair):
        thumbs = Thumb.objects.using(conversations.db)
        for conversation in conversations:
            answers = Message.objects.using(conversations.db).filter(conversation=conversation, type="AI")
            for position in answers.exclude(position__in=thumbs_of(conversation).values("position")).values_list(
                "position", flat=True
            ):
                if repair:
                    thumbs.get_or_create(conversation=conversation, position=position)
                yield Finding(
                    conversation=conversation.pk,
                    memory_id=conversation.memory_id,
                    what=f"thumb of message {position}",
                    expected="one",
                    found="none",
                    repaired=repair,
                )

    def search(self, model, conversations, text, types=()):
        if text not in ("👍", "👎"):
            return None
        thumbs = Thumb.objects.using(conversations.db).filter(conversation__in=conversations, up=text == "👍")
        if model is Conversation:
            return Q(pk__in=thumbs.values("conversation"))
        return Q(Exists(thumbs.filter(conversation=OuterRef("conversation"), position=OuterRef("position"))))

    def routes(self):
        from tests.capability.rest import routes

        return routes

    def admin_pages(self):
        from tests.capability.admin import thumbs_page

        return [AdminPage(name="thumbs", label="Thumbs", view=thumbs_page)]

    def admin_columns(self):
        return [disliked]

    def admin_filters(self):
        from tests.capability.admin import DislikedFilter

        return [DislikedFilter]

    def admin_section(self, model_admin, request, conversation, version):
        said = thumbs_of(conversation).exclude(up=None).count()
        return format_html("<h2>Thumbs</h2><p>{} at version {}.</p>", said, version) if said else ""

    def chat_scripts(self):
        return ["thumbs/thumbs.js", "thumbs/thumbs.css"]

    def chat_texts(self):
        return {"thumbs-up": "Good answer"}


def thumbs_of(conversation: Any) -> Any:
    return Thumb.objects.using(conversation._state.db).filter(conversation=conversation)


def disliked(conversation: Any) -> int:
    """Return the value of the column "disliked"."""
    return int(thumbs_of(conversation).filter(up=False).count())
