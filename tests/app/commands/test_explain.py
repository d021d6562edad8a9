"""`gradsim explain`: its folder, its words, and what it refuses."""

import json

import pytest

from gradsim.app.cli import main
from gradsim.app.commands.explain import explain
from gradsim.errors import InputError
from gradsim.runtime.atomic import write_json
from gradsim.scene import Scene

BOX = {
    "timing": {"fps": 50, "frames": 10, "substeps": 20},
    "bodies": {
        "cube": {
            "shape": {"box": {"size": [0.3, 0.24, 0.18]}},
            "mass": 2,
            "position": [0, 0, 0.1],
            "velocity": [1, 0, 0],
        }
    },
    "ground": {"stiffness": 4000, "dissipation": 0.5, "friction_stiffness": 40, "friction": 0.3},
}


@pytest.fixture
def scene(tmp_path):
    Scene.parse(BOX).save(tmp_path / "scene.yaml")
    return tmp_path / "scene.yaml"


def test_folder_holds_the_explanation_and_its_page(scene, tmp_path, capsys):
    words = ["explain", str(scene), "--unknown", "cube.mass", "cube.velocity.x", "--out", str(tmp_path / "why")]
    assert main.main(words) == 0
    out = capsys.readouterr().out
    assert "cube.velocity.x" in out and "report:" in out
    result = json.loads((tmp_path / "why" / "result.json").read_text())
    assert result["gradients"]["cube.velocity.x"]["verdict"] == "ok"
    assert {p["file"] for p in result["images"]} == {"sensitivity.png", "growth.png", "audit.png"}
    page = (tmp_path / "why" / "report.html").read_text()
    assert "Gradients of the motion" in page and "cube.velocity.x" in page


def test_a_fit_is_explained_at_its_estimates(scene, tmp_path):
    """A friction of 1e-4 slides throughout, so friction_stiffness has no say; at the scene's own 0.3 it has."""
    unknowns = {
        "ground.friction": {"value": 1e-4, "low": 1e-5, "high": 1.0},
        "ground.friction_stiffness": {"value": 40.0, "low": 1, "high": 200},
    }
    write_json(tmp_path / "result.json", {"unknowns": unknowns})
    found = explain(tmp_path, tmp_path / "why")[1]
    assert [f.name for f in found.findings] == list(unknowns)
    assert found["ground.friction_stiffness"].verdict == "zero"


def test_refusals_name_the_way_out(scene, tmp_path):
    with pytest.raises(InputError, match="no parameter `cube.mas`"):
        explain(scene, tmp_path / "why", ["cube.mas"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"holds no scene\.yaml"):
        explain(tmp_path / "empty", tmp_path / "why")
    assert not (tmp_path / "why").exists()
