"""The SQL of the most frequent reads and writes, built once for each database.

An addition reads the conversation with its oldest rows (``snapshot``) and writes with ``at_once`` where the database
can, else with ``counters`` and ``insert``. Under the lock it runs ``lock``, ``oldest`` if something must leave,
``counters`` and ``insert``. A read of the memory runs ``memory``.
"""
