"""Conversations into files, and out of files and tables of other programs.

The commands ``chatmemory_export`` and ``chatmemory_import`` use this package.
"""
