"""The signal of this app. The sender is ``Conversation``."""

from django.dispatch import Signal

feedback_given = Signal()
"""``conversation`` and ``feedback``, the row. A user rated an answer, or changed the rating or the comment.

It is sent after the commit, with ``send_robust``. Of a withdrawal, Django's ``post_delete`` of ``Feedback`` tells.
"""
