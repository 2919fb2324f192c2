"""Somebody who wants the package to fail: faults and kills at every statement, races that are judged, a pooler."""
