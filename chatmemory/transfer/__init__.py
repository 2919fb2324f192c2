"""Conversations into files, and out of files and tables of other programs.

``chatmemory_export`` and ``chatmemory_import`` are the commands; what they do is here.
"""
