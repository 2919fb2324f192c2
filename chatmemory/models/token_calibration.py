"""How the token counts of this package compare with those of the models' servers."""

from __future__ import annotations

from math import ceil

from django.db import models
from django.db.models import F
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from chatmemory.models.fields import ExactCharField

_DECAY = 0.98
"""The factor by which each call reduces the weight of earlier calls: about 50 calls make the ratio."""

_FEWEST_CALLS = 5
_LOWEST, _HIGHEST = 0.5, 3.0
_STEP = 20
"""The parts of one that ``factor`` is rounded up to, so that a ratio that moves a little changes no window."""


class TokenCalibration(models.Model):
    """The input tokens of a model's calls: as estimated here, and as the server reported them. Recent calls count most.

    The rows are written with the setting ``CALIBRATE_TOKENS`` only.
    """

    model = ExactCharField(_("model"), max_length=255, unique=True)
    calls = models.PositiveBigIntegerField(_("calls"), default=0)
    estimated = models.FloatField(_("estimated tokens"), default=0)
    reported = models.FloatField(_("reported tokens"), default=0)
    updated_at = models.DateTimeField(_("updated at"), default=timezone.now)

    class Meta:
        verbose_name = _("token calibration")
        verbose_name_plural = _("token calibrations")
        ordering = ["model"]
        default_permissions = ("view",)

    def __str__(self) -> str:
        return str(self.model)

    @property
    def ratio(self) -> float:
        """The reported tokens of one estimated token."""
        return self.reported / self.estimated if self.estimated else 1.0

    @staticmethod
    def note(database: str, model: str, *, estimated: int, reported: int) -> None:
        """Add a call of a model. Of calls that end at the same time each is counted."""
        rows = TokenCalibration.objects.using(database).filter(model=model)
        for _try in range(2):
            if rows.update(
                calls=F("calls") + 1,
                estimated=F("estimated") * _DECAY + estimated,
                reported=F("reported") * _DECAY + reported,
                updated_at=timezone.now(),
            ):
                return
            rows.bulk_create([TokenCalibration(model=model)], ignore_conflicts=True)

    @staticmethod
    def factor(database: str, model: str) -> float:
        """Return the tokens to expect for one estimated token, from 0.5 to 3, rounded up; 1 before five calls."""
        row = TokenCalibration.objects.using(database).filter(model=model, calls__gte=_FEWEST_CALLS).first()
        if row is None:
            return 1.0
        return min(max(ceil(round(row.ratio * _STEP, 3)) / _STEP, _LOWEST), _HIGHEST)
