"""`gradsim render`: images are those of the trajectory, and bad input leaves no files."""

import json
import sys
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch
from fit_cases import throw

from gradsim import video as videos
from gradsim.app.cli import main
from gradsim.app.commands.render import render
from gradsim.app.commands.render_options import RenderOptions
from gradsim.app.commands.simulate import simulate
from gradsim.errors import InputError
from gradsim.identification import synthetic
from gradsim.physics.model import Model
from gradsim.render import renderer
from gradsim.render.antialias.rasterizer import Antialiased
from gradsim.render.camera import from_scene
from gradsim.render.renderer import RASTERIZERS, Renderer
from gradsim.scene import Scene


def bytes_of(image: torch.Tensor) -> np.ndarray:
    return (image.clamp(0, 1).numpy() * 255).round().astype(np.uint8)


def png(path: Path) -> np.ndarray:
    from PIL import Image

    return np.asarray(Image.open(path))


@pytest.fixture(scope="module")
def scene():
    """A box in flight, a ball at rest, and a second camera with a wide image."""
    content = throw().model_dump(exclude_none=True)
    content["timing"]["substeps"] = 64  # obstacles are stiff
    look = {"eye": [3, -1, 1], "target": [0, 0, 0.8], "fov": 0.8}
    more = {"cameras": {"side": {"size": [32, 24], "look_at": look}}}
    return Scene.parse({**content, **more, "obstacles": {"post": {"radius": 0.15, "position": [0.9, 0, 0.2]}}})


@pytest.fixture(scope="module")
def motion(scene):
    with torch.no_grad():
        return Model(scene).rollout()


@pytest.fixture
def run(scene, tmp_path) -> Path:
    scene.save(tmp_path / "scene.yaml")
    simulate(tmp_path / "scene.yaml", tmp_path / "run")
    return tmp_path / "run"


def test_a_video_and_its_mask_are_bit_by_bit_what_is_fitted(run, scene, motion):
    rendered = render(run)
    assert rendered.lossless and rendered.frames == 8 and rendered.files["video"] == run / "video.webm"
    assert np.array_equal(videos.read(run / "video.webm").frames, bytes_of(synthetic.render_video(scene, motion)))
    mask = bytes_of(synthetic.float_masks(scene, motion).masks)
    assert np.array_equal(videos.read(run / "mask.webm").frames[..., 1], mask)


def test_the_command_line_knows_every_registered_rasterizer(run, monkeypatch, capsys):
    @dataclass(frozen=True)
    class Mine(Antialiased):
        name: ClassVar[str] = "mine"

    words = ["render", str(run), "--frame", "0", "--renderer"]
    assert main.main([*words, "mine"]) == 2
    assert "use one of coverage, aa, softras, dibr, mitsuba" in " ".join(capsys.readouterr().err.split())
    monkeypatch.setitem(RASTERIZERS, "mine", Mine)
    assert main.main([*words, "mine"]) == main.main([*words, "aa"]) == 0
    (ours,), (reference,) = (list(run.glob(f"*_{name}.png")) for name in ("mine", "aa"))
    assert np.array_equal(png(ours), png(reference))


def test_the_command_line_knows_the_rasterizers_of_installed_packages(run, monkeypatch, tmp_path):
    (tmp_path / "installed_rasterizer.py").write_text(
        "from gradsim.render.antialias.rasterizer import Antialiased\n\n\nclass Mine(Antialiased):\n    name = 'mine'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    point = EntryPoint("mine", "installed_rasterizer:Mine", renderer.GROUP)
    monkeypatch.setattr(renderer, "entry_points", lambda group: [point] * (group == "gradsim.rasterizers"))
    monkeypatch.setattr(renderer, "RASTERIZERS", dict(RASTERIZERS))
    renderer._installed.cache_clear()
    words = ["render", str(run), "--frame", "0", "--renderer"]
    assert main.main([*words, "mine"]) == main.main([*words, "aa"]) == 0
    renderer._installed.cache_clear()
    (ours,), (reference,) = (list(run.glob(f"*_{name}.png")) for name in ("mine", "aa"))
    assert np.array_equal(png(ours), png(reference))


def test_further_cameras_and_renderers_have_videos_of_their_own_names(run, scene, motion):
    assert {p.name for p in render(run, RenderOptions(camera="side")).files.values()} == {"side.webm", "side_mask.webm"}
    rendered = render(run, RenderOptions(renderer="aa", shading="lambert", camera="side"))
    assert {p.name for p in rendered.files.values()} == {"side_aa.webm", "side_mask_aa.webm"}
    expected = (
        Renderer.of(scene, "aa", "side", "lambert")(motion.scene_surface, motion.values)[0].detach().permute(0, 2, 3, 1)
    )
    assert np.array_equal(videos.read(rendered.files["video"]).frames, bytes_of(expected))


@pytest.mark.parametrize("format", ("mp4", "gif", "png"))
def test_every_format_holds_the_same_frames(run, format):
    frames = videos.read(render(run).files["video"]).frames
    rendered = render(run, RenderOptions(format=format))
    assert rendered.lossless and rendered.frames == len(frames)
    again = videos.read(rendered.files["video"], fps=20 if format == "png" else None)
    assert np.array_equal(again.frames, frames)


@pytest.mark.parametrize("format", ("webm", "mp4", "gif"))
def test_a_preview_is_near_the_frames_and_called_lossy(run, format):
    """Eight levels on average: what codecs for looking at leave, far below the contrast of body and ground, 200."""
    frames = videos.read(render(run).files["video"]).frames
    rendered = render(run, RenderOptions(format=format, preview=True))
    frames_read = videos.read(rendered.files["video"]).frames
    factor = frames_read.shape[1] // frames.shape[1]
    assert rendered.files["video"].name == f"preview.{format}"
    assert not rendered.lossless and factor == 13 and len(frames_read) == len(frames)
    assert np.abs(frames_read - frames.repeat(factor, 1).repeat(factor, 2).astype(float)).mean() < 8


def test_a_run_of_a_fit_is_recorded_at_its_estimates(run, scene):
    mass = {"value": 2.0, "std": 0.1, "unit": "kg", "truth": None, "low": 1.0, "high": 8.0}
    (run / "result.json").write_text(json.dumps({"command": "fit", "unknowns": {"cube.mass": mass}}))
    lighter = Model(scene).rollout({"cube.mass": torch.tensor([2.0], dtype=torch.float64)})
    video = bytes_of(synthetic.render_video(scene, lighter))
    assert np.array_equal(videos.read(render(run).files["video"]).frames, video)


def test_a_scene_is_simulated_first_but_never_over_a_fit(run, tmp_path):
    rendered = render(tmp_path / "scene.yaml", RenderOptions(frame=0), tmp_path / "new")
    assert (tmp_path / "new" / "trajectory.npz").is_file() and rendered.files["frame"].is_file()
    (run / "result.json").write_text(json.dumps({"command": "fit"}))
    with pytest.raises(InputError, match="holds a run of `gradsim fit`"):
        render(tmp_path / "scene.yaml", RenderOptions(frame=0), run)


def test_frames_are_counted_from_the_end_as_well(run):
    last = png(render(run, RenderOptions(frame=-1)).files["frame"])
    assert np.array_equal(last, png(render(run, RenderOptions(frame=7)).files["frame"]))


def test_one_frame_is_that_frame_with_depth_ids_and_flow_to_the_next(run, scene, motion):
    rendered = render(run, RenderOptions(frame=3, buffers=("depth", "normals", "ids", "flow")))
    assert np.array_equal(png(rendered.files["frame"]), bytes_of(synthetic.render_video(scene, motion)[3]))
    assert {p.name for p in rendered.files.values()} == {"frame_003.png", "frame_003.npz"} | {
        f"frame_003_{name}.png" for name in ("depth", "normals", "ids", "flow")
    }
    expected = Renderer(from_scene(scene.camera)).output(motion.scene_surface)
    with np.load(rendered.files["arrays"]) as arrays:
        assert arrays["names"].tolist() == ["cube", "post"]
        for name in ("depth", "normals", "ids", "flow"):
            assert np.array_equal(arrays[name], getattr(expected, name)[0, 3:4].detach().numpy()), name
        assert (arrays["ids"] == 0).sum() > 10 and np.abs(arrays["flow"]).max() > 1


def test_buffers_of_a_video_are_videos(run):
    rendered = render(run, RenderOptions(buffers=("depth", "flow")))
    assert (
        len(videos.read(rendered.files["depth"]).frames) == 8 and len(videos.read(rendered.files["flow"]).frames) == 7
    )


def test_a_turntable_begins_where_the_camera_stands(run, scene, motion):
    rendered = render(run, RenderOptions(turntable=4, frame=2))
    views = videos.read(rendered.files["video"]).frames
    assert len(views) == rendered.frames == 4
    assert np.array_equal(views[0], bytes_of(synthetic.render_video(scene, motion)[2]))
    share = [(np.abs(view.astype(int) - 255).max(-1) > 20).mean() for view in views]
    assert min(share) > 0.01  # things are in view from everywhere


def test_a_contact_sheet_has_first_and_last_frame_in_its_corners(run, scene, motion):
    page, video = (
        png(render(run, RenderOptions(sheet=(2, 2))).files["sheet"]),
        bytes_of(synthetic.render_video(scene, motion)),
    )
    below = (page.shape[0] - 6) // 2 - 24  # a line of text and a gap
    assert np.array_equal(page[6:30, 6:30], video[0])
    assert np.array_equal(page[-below - 24 : -below, -30:-6], video[7])
    assert (page[30 : 6 + below + 18, 6:30] < 200).any()  # its time


def test_a_strip_ends_in_the_last_frame_and_has_the_first_below_it(tmp_path):
    scene = throw(velocity=[3.2, 0, 0])
    scene.save(tmp_path / "scene.yaml")
    with torch.no_grad():
        motion = Model(scene).rollout()
    image = png(render(tmp_path, RenderOptions(strip=3)).files["strip"]).astype(float)
    video, masks = (
        bytes_of(synthetic.render_video(scene, motion)).astype(float),
        synthetic.float_masks(scene, motion).masks,
    )
    first, middle, last = (masks[k].numpy() for k in (0, 4, 7))  # rounds 3.5 to the even number
    assert np.abs(image - video[7])[last > 1 - 1e-9].max() <= 1
    alone = (first > 1 - 1e-9) & (middle + last < 1e-9)
    empty = np.array(scene.background) * 255
    assert alone.sum() > 5
    assert np.abs(image - (0.25 * video[0] + 0.75 * empty))[alone].max() <= 1


def test_what_stands_still_is_as_clear_in_a_strip_as_in_a_frame(run, scene, motion):
    image = png(render(run, RenderOptions(strip=3)).files["strip"]).astype(int)
    free = synthetic.float_masks(scene, motion).masks.amax(0).numpy() < 1e-9
    video = bytes_of(synthetic.render_video(scene, motion)).astype(int)
    post = np.abs(video[0] - 255 * np.array(scene.background)).max(-1) > 50
    assert (free & post).sum() > 3
    assert np.abs(image - video[0])[free].max() <= 1


def test_size_keeps_all_of_the_view(run):
    tall = png(render(run, RenderOptions(frame=3, size=(24, 48))).files["frame"])
    small = png(render(run, RenderOptions(frame=3)).files["frame"])
    assert tall.shape == (48, 24, 3) and np.array_equal(tall[12:36], small)


WRONG = {
    "format": (RenderOptions(format="avi"), "webm, mp4, gif, png"),
    "preview of png": (RenderOptions(format="png", preview=True), "webm, mp4, gif"),
    "two layouts": (RenderOptions(sheet=(1, 2), strip=2), "--sheet and --strip"),
    "frame of a strip": (RenderOptions(frame=1, strip=2), "--frame is one instant"),
    "no such frame": (RenderOptions(frame=8), "frames 0 to 7, and -1 is the last"),
    "flow of the last": (RenderOptions(frame=7, buffers=("flow",)), "there is none after the last"),
    "size": (RenderOptions(size=(0, 10)), "--size is 0x10"),
    "one view": (RenderOptions(turntable=1), "at least 2 views"),
    "large sheet": (RenderOptions(sheet=(3, 3)), "at most the 8 frames"),
    "one instant": (RenderOptions(strip=1), "between 2 and 8"),
    "buffers of a strip": (RenderOptions(strip=3, buffers=("depth",)), "or --frame K"),
    "preview of a sheet": (RenderOptions(sheet=(1, 2), preview=True), "--preview is for videos"),
    "camera": (RenderOptions(camera="sid"), "did you mean `side`"),
    "renderer": (RenderOptions(renderer="softas"), "use one of coverage, aa"),
    "shading": (RenderOptions(renderer="coverage", shading="phong"), "use `aa`"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_cannot_be_is_refused_before_work(scene, tmp_path, monkeypatch, what):
    scene.save(tmp_path / "scene.yaml")
    monkeypatch.setattr(Model, "rollout", lambda *a, **k: pytest.fail("it went to work"))
    shot, message = WRONG[what]
    with pytest.raises(InputError, match=message):
        render(tmp_path / "scene.yaml", shot, tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.fixture
def lit(tmp_path) -> Path:
    """A ball that moves along under a lamp of its own color, above a visible floor."""
    content = {
        "timing": {"fps": 30, "frames": 2},
        "bodies": {
            "ball": {"shape": {"sphere": {"radius": 0.3}}, "mass": 1, "position": [0, 0, 0.5], "velocity": [9, 0, 0]}
        },
        "ground": {"visible": {"size": 4, "colour": [0.6, 0.6, 0.6]}},
        "lights": {"sun": {"kind": "directional", "direction": [0, 0, -1], "colour": [2, 0.5, 0]}},
        "camera": {"size": [24, 18], "look_at": {"eye": [0, -3, 2], "target": [0, 0, 0.2], "fov": "45 deg"}},
        "background": [0.0, 0.0, 1.0],
        "shading": "lambert",
    }
    Scene.parse(content).save(tmp_path / "scene.yaml")
    return tmp_path


def test_mitsuba_videos_lights_floor_and_shadow_of_the_scene(lit):
    pytest.importorskip("mitsuba", reason='Mitsuba is not installed: pip install "gradsim[mitsuba]"')
    rendered = render(lit, RenderOptions(renderer="mitsuba", spp=16))
    frames = videos.read(rendered.files["video"]).frames
    assert rendered.lossless and rendered.files["video"].name == "video_mitsuba.webm" and frames.shape == (2, 18, 24, 3)
    assert frames[0, 0, 0].tolist() == [0, 0, 255]  # sky
    assert np.abs(frames[0, -1, 0] - [255, 76.5, 0]).max() <= 1  # floor 0.6 · (2, 0.5, 0), cut off at 1
    dark = (frames[..., 0] < 50) & (frames[..., 2] < 3)  # light that the blue-grey ball sends down is not much
    columns = np.broadcast_to(np.arange(24), (18, 24))
    assert dark.sum() > 4
    assert columns[dark[1]].mean() > columns[dark[0]].mean() + 0.5  # it moves along


def test_without_mitsuba_it_is_said_what_to_install(lit, monkeypatch):
    monkeypatch.setitem(sys.modules, "mitsuba", None)
    with pytest.raises(InputError, match=r'Mitsuba cannot be imported .*pip install "gradsim\[mitsuba\]"'):
        render(lit, RenderOptions(renderer="mitsuba"))
    assert [path.name for path in lit.iterdir()] == ["scene.yaml"]


def test_a_scene_with_light_and_floor_is_recorded_with_them(lit):
    """The floor by `aa`: 0.6 · (2, 0.5, 0), cut off at 1."""
    rendered = render(lit)
    assert rendered.files["video"].name == "video.webm"
    assert np.abs(videos.read(rendered.files["video"]).frames[0, -1, 0] - [255, 76.5, 0]).max() <= 1


def test_a_folder_without_a_run_says_how_to_make_one(tmp_path):
    with pytest.raises(InputError, match="gradsim simulate"):
        render(tmp_path)


def test_the_command_says_what_it_made(run, capsys):
    assert main.main(["render", str(run), "--sheet", "2x3", "--size", "30x20"]) == 0
    assert capsys.readouterr().out.strip() == f"sheet: {run / 'sheet.png'}"
    assert main.main(["render", str(run), "--size", "30"]) == 2
    assert "two whole numbers with an x between" in capsys.readouterr().err
