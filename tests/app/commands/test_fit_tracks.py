"""`gradsim fit --tracks`: what it writes, and what it refuses before a folder is made."""

import csv
import json

import pytest
import torch
from fit_cases import throw

from gradsim import video as videos
from gradsim.app.cli import main
from gradsim.geometry.image_io import to_bytes
from gradsim.identification import Points, synthetic
from gradsim.physics.model import Model
from gradsim.render.silhouettes import Silhouettes
from gradsim.scene import Scene

pytestmark = pytest.mark.usefixtures("blank_plots")

UNKNOWN = ("--unknown", "cube.mass:1:8")
CORNERS = {"left": [-0.25, 0.2, 0.15], "right": [0.25, 0.2, 0.15]}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """scene.yaml with two markers, a video of it, and tracks with a noise of 0.1 px whose body has 3.1 kg."""
    folder = tmp_path_factory.mktemp("inputs")
    content = throw().model_dump(exclude_unset=True)
    content["markers"] = {name: {"body": "cube", "point": point} for name, point in CORNERS.items()}
    scene = Scene.parse(content)
    scene.save(folder / "scene.yaml")
    with torch.no_grad():
        trajectory = Model(scene).rollout({"cube.mass": torch.tensor([3.1]).double()})
    noise = torch.Generator().manual_seed(0)
    silhouettes = Silhouettes.of(scene)
    pixels = Points(scene.markers, torch.zeros(8, 2, 2), 1.0, silhouettes).predict(trajectory)[0]
    pixels = pixels + 0.1 * torch.randn(pixels.shape, generator=noise).double()
    with (folder / "tracks.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["frame", "name", "u", "v"])
        rows.writerows([k, name, *pixels[k, j].tolist()] for k in range(8) for j, name in enumerate(CORNERS))
    videos.write(folder / "video.webm", to_bytes(synthetic.render_video(scene, trajectory, "camera")), 20)
    return folder


def fit(inputs, out, *more: str) -> int:
    files = [str(inputs / "scene.yaml"), "--tracks", str(inputs / "tracks.csv")]
    return main.main(["fit", *files, *UNKNOWN, "--out", str(out), "--starts", "4", *more])


def test_tracks_alone_give_an_answer_and_a_page(inputs, tmp_path):
    assert fit(inputs, tmp_path / "run", "--noise", "0.1") == 0
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    mass = result["unknowns"]["cube.mass"]
    assert result["status"] == "ok" and abs(mass["value"] - 3.1) < 4 * mass["std"] < 0.4
    assert result["images"][0]["file"] == "tracks.png" and "video" not in result
    page = (tmp_path / "run" / "report.html").read_text()
    assert (tmp_path / "run" / "tracks.png").is_file() and "Crosses: tracks; lines: the fit" in page


def test_tracks_are_drawn_over_their_video(inputs, tmp_path):
    assert fit(inputs, tmp_path / "run", "--noise", "0.1", "--video", str(inputs / "video.webm")) == 0
    frames = videos.read(tmp_path / "run" / "overlay.webm").frames
    assert len(frames) == 8 and "overlay.webm" in (tmp_path / "run" / "result.json").read_text()


def test_a_finished_run_of_tracks_is_not_run_again(inputs, tmp_path):
    assert fit(inputs, tmp_path / "run", "--noise", "0.1") == 0
    before = (tmp_path / "run" / "result.json").read_bytes()
    assert main.main(["fit", "--resume", str(tmp_path / "run")]) == 0
    assert (tmp_path / "run" / "result.json").read_bytes() == before


@pytest.mark.parametrize(
    "more, words",
    [
        ((), "noise of the tracks"),
        (("--noise", "auto"), "--noise auto is for masks"),
        (("--noise", "0.1", "--background", "median"), "--background are for masks"),
        (("--noise", "0.1", "--mask", "color:1,2,3,4"), "no --mask"),
        (("--noise", "0.1", "--starts", "0"), "starts is 0"),
        (("--noise", "0.1", "--estimator", "guess"), "guess"),
    ],
)
def test_options_that_are_not_for_tracks_are_refused(inputs, tmp_path, capsys, more, words):
    assert fit(inputs, tmp_path / "run", *more) == 2
    assert words in capsys.readouterr().err.replace("\n", " ") and not (tmp_path / "run").exists()


def test_a_video_that_is_shorter_than_its_tracks_is_refused(inputs, tmp_path, capsys):
    short = videos.read(inputs / "video.webm").frames[:5]
    videos.write(tmp_path / "short.webm", short, 20)
    assert fit(inputs, tmp_path / "run", "--noise", "0.1", "--video", str(tmp_path / "short.webm")) == 2
    assert "has 5 frames, the tracks 8" in " ".join(capsys.readouterr().err.replace("│", " ").split())


def test_tracks_of_two_cameras_give_the_delay_of_one(inputs, tmp_path):
    """The second table is that of the first camera at the next frame: with the same view it is 1/20 s late."""
    content = Scene.load(inputs / "scene.yaml").model_dump(exclude_unset=True)
    content["cameras"] = {"side": {**content["camera"], "delay": 0}}
    Scene.parse(content).save(tmp_path / "scene.yaml")
    lines = (inputs / "tracks.csv").read_text().splitlines()
    shifted = [f"{int(k) - 1},{rest}" for k, _, rest in (line.partition(",") for line in lines[1:]) if int(k) > 0]
    (tmp_path / "side.csv").write_text("\n".join([lines[0], *shifted]))
    files = ["--tracks", str(inputs / "tracks.csv"), f"side={tmp_path / 'side.csv'}", "--noise", "0.1"]
    unknown = [*UNKNOWN, "cameras.side.delay:0:0.1"]
    arguments = ["fit", str(tmp_path / "scene.yaml"), *files, *unknown, "--starts", "2", "--out", str(tmp_path / "run")]
    assert main.main(arguments) == 0
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    delay = result["unknowns"]["cameras.side.delay"]
    assert abs(delay["value"] - 0.05) < 4 * delay["std"] < 0.02
    assert [image["file"] for image in result["images"][:2]] == ["tracks.png", "tracks_side.png"]
    assert main.main(["fit", "--resume", str(tmp_path / "run")]) == 0


def test_two_tables_of_one_camera_are_refused(inputs, tmp_path, capsys):
    table = str(inputs / "tracks.csv")
    assert (
        main.main(["fit", str(inputs / "scene.yaml"), "--tracks", table, table, *UNKNOWN, "--out", str(tmp_path)]) == 2
    )
    assert "--tracks names a camera twice" in " ".join(capsys.readouterr().err.replace("│", " ").split())


def test_tracks_of_two_clips_are_compared_by_models(inputs, tmp_path, capsys):
    files = [str(inputs / "scene.yaml"), "--tracks", str(inputs / "tracks.csv"), str(inputs / "tracks.csv")]
    (tmp_path / "models.yaml").write_text("no gravity: {gravity: [0, 0, 0]}\n")
    models = ["--candidates", str(tmp_path / "models.yaml")]
    options = ["--noise", "0.1", *models, "--starts", "2", "--folds", "2", "--json"]
    assert main.main(["compare", *files, *UNKNOWN, *options, "--out", str(tmp_path / "run")]) == 0
    result = json.loads(capsys.readouterr().out)
    mass = result["unknowns"]["cube.mass"]
    assert abs(mass["value"] - 3.1) < 4 * mass["std"] and mass["std"] < 0.1
    assert {entry["file"] for entry in result["images"]} == {"tracks_1.png", "tracks_2.png"}
    assert {"tracks_1.png", "tracks_2.png", "scene_2.yaml", "report.html"} <= {
        p.name for p in (tmp_path / "run").iterdir()
    }
    assert [row["name"] for row in result["comparison"]["candidates"]] == ["as given", "no gravity"]
    assert result["comparison"]["chosen"] == "as given"


def test_options_of_videos_are_refused_for_compared_tracks(inputs, tmp_path, capsys):
    files = [str(inputs / "scene.yaml"), "--tracks", str(inputs / "tracks.csv")]
    wrong = ["--video", str(inputs / "video.webm"), "--frames", "!2", "--model", "rk4"]
    assert main.main(["compare", *files, *UNKNOWN, *wrong, "--out", str(tmp_path / "run")]) == 2
    error = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert "--video and --frames are for videos, and --tracks are compared in their place" in error
    assert not (tmp_path / "run").exists()
