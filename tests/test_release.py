"""What a release has to agree on: version, tag, citation, release notes and versions of Python."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))


def test_the_citation_has_the_version_and_the_license_of_the_package():
    """The version is the tag's; files without git are before the one that is cited."""
    assert PYPROJECT["tool"]["hatch"]["version"]["fallback-version"] == f"{CITATION['version']}.dev0"
    assert CITATION["license"] == PROJECT["license"]
    paper = CITATION["references"][0]
    assert len(paper["authors"]) == 14 and paper["year"] == 2021 and "gradSim" in paper["title"]


def test_versions_of_python_are_those_of_the_readme():
    stated = re.search(r"Python (3\.\d+) to (3\.\d+)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert stated is not None
    minors = range(*(int(version.split(".")[1]) + k for k, version in enumerate(stated.groups())))
    classified = [c.rpartition(" ")[2] for c in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", c)]
    assert classified == [f"3.{minor}" for minor in minors]
    assert PROJECT["requires-python"] == f">=3.{minors[0]}"


def test_a_tagged_commit_has_the_version_and_the_notes_of_its_tag():
    """On other commits the notes begin with what is not released."""
    git = subprocess.run(
        ["git", "tag", "--points-at", "HEAD", "v*"], check=False, cwd=ROOT, capture_output=True, text=True
    )
    if git.returncode:
        pytest.skip("not a git checkout")
    sections = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    tags = git.stdout.split()
    assert tags in ([], [f"v{CITATION['version']}"])
    assert sections[0].startswith(CITATION["version"] if tags else "Unreleased")
