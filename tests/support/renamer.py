"""A process that makes, renames and erases conversations: ``python -m tests.support.renamer SEED COUNT``.

There are so few names that processes meet.
"""

import random
import sys

import django

if __name__ == "__main__":
    django.setup()

    from django.db import DatabaseError, OperationalError

    from chatmemory import UserMessage
    from chatmemory.models import Conversation
    from chatmemory.stores import DjangoChatMemoryStore

    seed, count = sys.argv[1], int(sys.argv[2])
    chance = random.Random(seed)
    store = DjangoChatMemoryStore()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    for number in range(count):
        name, other = (f"name {chance.randrange(500)}" for _ in range(2))
        act = chance.choice(["add", "add", "make", "rename", "erase"])
        try:
            if act == "add":
                store.update_messages(name, [*store.get_messages(name), UserMessage(f"{seed} {number}")])
            elif act == "make":
                Conversation.objects.create(memory_id=name)
            elif (found := Conversation.objects.named(None, name).first()) is not None:
                if act == "erase":
                    found.delete()
                else:
                    found.memory_id = other
                    found.save()
        except Conversation.DoesNotExist:
            pass  # another process has erased it
        except DatabaseError as error:
            if isinstance(error, OperationalError):
                raise
            # Another process has taken the name, or erased what was to be renamed.
