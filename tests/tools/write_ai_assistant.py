"""Threads as django-ai-assistant writes them: ``python -m tests.tools.write_ai_assistant``."""

import django

if __name__ == "__main__":
    django.setup()

    from django.contrib.auth import get_user_model
    from django.core.management import call_command
    from django_ai_assistant.helpers.django_messages import save_django_messages
    from django_ai_assistant.models import Thread

    from tests.support.langchain_talk import langchain_talk

    call_command("migrate", verbosity=0)
    get_user_model().objects.create(username="somebody")
    ann = get_user_model().objects.create(username="ann")
    Thread.objects.create(name="Nothing said", created_by=ann)
    thread = Thread.objects.create(name="Weather", created_by=ann, assistant_id="weather")
    save_django_messages(langchain_talk(), thread)
    save_django_messages(langchain_talk()[:1], Thread.objects.create())
