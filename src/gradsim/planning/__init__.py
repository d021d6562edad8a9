"""Planning: the next film that tells most about what is wanted."""

from gradsim.planning.api import Plan, plan
from gradsim.planning.choices import Choice
from gradsim.planning.noise import OutlineNoise, VideoNoise
from gradsim.planning.question import Marking, Wanted, Weighing
from gradsim.planning.quick import NextVideo, next_video
from gradsim.planning.search import Design

__all__ = [
    "Choice",
    "Design",
    "Marking",
    "NextVideo",
    "OutlineNoise",
    "Plan",
    "VideoNoise",
    "Wanted",
    "Weighing",
    "next_video",
    "plan",
]
