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
from tests.capability.models import Review


class Reviews(Capability):
    def changed(self, change):
        database = change.conversation._state.db
        answers = [row for row in change.added if row.type == "AI"]
        Review.objects.using(database).bulk_create(
            [Review(conversation=change.conversation, position=row.position) for row in answers]
        )

    def export(self, conversation):
        reviews = Review.objects.using(conversation._state.db).filter(conversation=conversation)
        for review in reviews.order_by("position"):
            yield {"position": review.position, "correct": review.correct, "comment": review.comment}

    def restore(self, conversation, line):
        position, correct, comment = line.number("position"), line.flag("correct", null=True), line.text("comment")
        review = Review(conversation=conversation, position=position, correct=correct, comment=comment)
        return partial(review.save, using=conversation._state.db)

    def sent(self, conversation, messages):
        wrong = reviews_of(conversation).filter(correct=False).count()
        return [SystemMessage(f"{wrong} answers were wrong."), *messages] if wrong else messages

    def erased(self, conversation, positions):
        reviews_of(conversation).filter(position__in=positions).delete()

    def recall(self, conversation, message, tokens):
        comments = reviews_of(conversation).exclude(comment="").order_by("position").values_list("comment", flat=True)
        return Recalled(text=f"A reviewer commented: {'; '.join(comments)}") if comments else None

    def replay_recall(self, conversation, variants, *, hits=5, questions=()):
        comments = reviews_of(conversation).exclude(comment="").count()
        return [RecallFigures(hits=min(hits, comments), questions=len(questions)) for _ in variants]

    def cache_read_share(self, conversation):
        correct = list(reviews_of(conversation).exclude(correct=None).values_list("correct", flat=True))
        return sum(correct) / len(correct) if correct else None

    def anonymise(self, conversation):
        reviews_of(conversation).update(comment="")

    def export_user(self, user, database):
        theirs = Review.objects.using(database).filter(reviewer=user).exclude(conversation__owner=user)
        for review in theirs.order_by("pk"):
            yield {"conversation": review.conversation_id, "position": review.position, "comment": review.comment}

    def erase_user(self, user, database, *, how):
        Review.objects.using(database).filter(reviewer=user).update(comment="", reviewer=None)

    def purge(self, conversation, before):
        reviews_of(conversation).filter(created_at__lt=before).update(comment="")

    def verify(self, conversations, *, repair):
        reviews = Review.objects.using(conversations.db)
        for conversation in conversations:
            answers = Message.objects.using(conversations.db).filter(conversation=conversation, type="AI")
            for position in answers.exclude(position__in=reviews_of(conversation).values("position")).values_list(
                "position", flat=True
            ):
                if repair:
                    reviews.get_or_create(conversation=conversation, position=position)
                yield Finding(
                    conversation=conversation.pk,
                    memory_id=conversation.memory_id,
                    what=f"review of message {position}",
                    expected="one",
                    found="none",
                    repaired=repair,
                )

    def search(self, model, conversations, text, types=()):
        if text not in ("✓", "✗"):
            return None
        reviews = Review.objects.using(conversations.db).filter(conversation__in=conversations, correct=text == "✓")
        if model is Conversation:
            return Q(pk__in=reviews.values("conversation"))
        return Q(Exists(reviews.filter(conversation=OuterRef("conversation"), position=OuterRef("position"))))

    def routes(self):
        from tests.capability.rest import routes

        return routes

    def message_fields(self):
        from tests.capability.rest import message_field

        return [message_field()]

    def admin_pages(self):
        from tests.capability.admin import reviews_page

        return [AdminPage(name="reviews", label="Reviews", view=reviews_page)]

    def admin_columns(self):
        return [wrong]

    def admin_filters(self):
        from tests.capability.admin import WrongFilter

        return [WrongFilter]

    def admin_section(self, model_admin, request, conversation, version):
        said = reviews_of(conversation).exclude(correct=None).count()
        return format_html("<h2>Reviews</h2><p>{} at version {}.</p>", said, version) if said else ""

    def admin_notes(self, model_admin, request, conversation, positions):
        found = reviews_of(conversation).filter(position__in=positions, correct=False)
        return {review.position: format_html("<p>Wrong: {}</p>", review.comment) for review in found}

    def chat_scripts(self):
        return ["reviews/reviews.js", "reviews/reviews.css"]

    def chat_texts(self):
        return {"reviews-correct": "Correct"}


def reviews_of(conversation: Any) -> Any:
    return Review.objects.using(conversation._state.db).filter(conversation=conversation)


def wrong(conversation: Any) -> int:
    """Return the value of the column "wrong"."""
    return int(reviews_of(conversation).filter(correct=False).count())
