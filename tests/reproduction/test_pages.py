"""Pages of the docs name the experiments."""

import re
from pathlib import Path

import pytest

from gradsim_reproduction.all import PAPER
from gradsim_reproduction.registry import EXPERIMENTS

ROOT = Path(__file__).parents[2]


def prose(page: str) -> str:
    """A page without its blocks of code, in one line."""
    text = re.sub(r"^```.*?^```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    return text.replace("\n", " ")


@pytest.mark.parametrize(
    ("page", "names"), [("docs/experiments/index.md", EXPERIMENTS), ("docs/experiments/paper.md", PAPER)]
)
def test_a_page_names_every_experiment(page, names):
    quoted = set(re.findall(r"[a-z0-9-]+", " ".join(re.findall(r"`([^`]+)`", prose(page)))))
    assert set(names) <= quoted
