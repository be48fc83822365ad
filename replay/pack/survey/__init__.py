"""The first pass over a raw capture: what each window is, what it uses, touches and launches."""

from replay.pack.survey.call_parts import is_image
from replay.pack.survey.findings import KernelDraft, Survey
from replay.pack.survey.first_pass import FirstPass

__all__ = ["KernelDraft", "Survey", "FirstPass", "is_image"]
