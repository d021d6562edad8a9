"""The examples, as a user runs them: each finds what it made up, and stays short."""

import importlib.util
from pathlib import Path

import pytest

from gradsim.geometry import image_io

EXAMPLES = Path(__file__).parents[1] / "examples"


def example(name: str):
    """The example as a module."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_known_push_shows_the_mass_in_a_noisy_video():
    code = example("mass_from_video")
    fit = code.main()
    mass = fit.unknowns["box.mass"]
    assert fit.status == "ok"
    assert mass.std / mass.value < 1e-3
    assert abs(mass.value - code.MASS) < 4 * mass.std  # odds of 1 in 16 000


@pytest.mark.slow
def test_a_ball_is_thrown_to_where_the_goal_image_shows_it():
    assert example("throw_to_an_image").main() < 0.005  # [m], a tenth of a pixel


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_video_of_a_pendulum_shows_the_length_of_its_string():
    code = example("string_of_a_pendulum")
    fit = code.main()
    string = fit.unknowns["bob.string_length"]
    assert fit.status == "ok"
    assert string.std < 1e-4
    assert abs(string.value - code.LENGTH) < 4 * string.std


@pytest.mark.slow
def test_two_bodies_show_their_masses_and_the_friction_they_share():
    """Float frames of the fit's own renderer and steps: self-consistency, to 1e-6."""
    code = example("two_bodies")
    fit = code.main()
    assert fit.status == "ok"
    assert max(abs(e.value / code.TRUTH[name] - 1) for name, e in fit.unknowns.items()) < 1e-6


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_an_arm_shows_its_links_and_its_spring():
    """Targets of finer steps: fourth order leaves less than the nominal error bars."""
    code = example("arm")
    fit = code.main()
    assert fit.status == "ok"
    assert max(abs(e.value / code.TRUTH[name] - 1) for name, e in fit.unknowns.items()) < 1e-4


def test_mitsuba_adds_shadows_to_our_image_and_little_else():
    """Light from one thing on another adds 0.03 or less; shadows take 0.3 from the floor where the sun was."""
    pytest.importorskip("mitsuba", reason='Mitsuba is not installed: pip install "gradsim[mitsuba]"')
    ours, traced = example("path_traced").main(width=48, spp=16)
    difference = (traced - ours).mean(0)
    assert difference.abs().median() < 0.03
    assert 0.01 < (difference < -0.2).double().mean() < 0.1


def test_a_ball_becomes_a_flower_that_no_renderer_drew(tmp_path):
    before, after = example("silhouette_from_vertices").main(iterations=90, folder=tmp_path)
    assert before < 0.3 and after > 0.95
    assert image_io.read(tmp_path / "silhouette.png").shape == (3, 128, 3 * 128 + 2 * image_io.GAP)


@pytest.mark.slow
def test_silhouettes_show_an_unknown_shape_also_from_between_them(tmp_path):
    before, after = example("unknown_shape").main(iterations=60, folder=tmp_path, size=40)
    assert before < 0.75 and after > 0.95
    assert (tmp_path / "shape.png").stat().st_size < 200_000


def test_images_show_what_is_painted_on_a_ball(tmp_path):
    before, after = example("texture_from_image").main(iterations=16, folder=tmp_path)
    assert after < 0.5 * before
    assert (tmp_path / "texture.png").exists()


@pytest.mark.slow
def test_a_image_shows_where_its_camera_stood_and_its_light(tmp_path):
    before, after = example("camera_and_light").main(starts=1, iterations=80, folder=tmp_path, seed=0)
    assert before > 1 and after < 0.02  # [m]
    assert (tmp_path / "camera.png").exists()


def test_the_video_of_a_falling_beam_shows_its_stiffness():
    """Steps four times as fine in the video; what is left is noise: within three error bars."""
    code = example("beam_stiffness")
    fit = code.main(starts=2)
    young, damping = (fit.unknowns[name] for name in code.TRUTH)
    assert fit.status == "ok" and fit.chi2_per_n < 1.2
    assert young.std / young.value < 2e-4
    assert abs(young.value - code.TRUTH["beam.young"]) < 3 * young.std
    assert abs(damping.value - code.TRUTH["beam.damping"]) < 3 * damping.std < 0.2 * damping.value


@pytest.mark.slow
def test_the_video_of_a_bouncing_ball_shows_its_density_and_stiffness():
    code = example("ball_density")
    fit = code.main()
    assert fit.status == "ok"
    assert max(abs(e.value / code.TRUTH[name] - 1) for name, e in fit.unknowns.items()) < 2e-3


@pytest.mark.slow
def test_the_video_of_a_flag_shows_its_drag_and_lift():
    """Steps four times as fine in the film: their error is above that of the noise."""
    code = example("flag_drag")
    fit = code.main(starts=1)
    assert all(e.std / e.value < 5e-4 for e in fit.unknowns.values())
    assert max(abs(e.value / code.TRUTH[name] - 1) for name, e in fit.unknowns.items()) < 1e-2


@pytest.mark.slow
def test_muscles_bend_an_arm_to_a_goal_image(tmp_path):
    before, after = example("muscles_to_an_image").main(iterations=30, folder=tmp_path)
    assert before < 0.4 and after > 0.85
    assert (tmp_path / "muscles.png").exists()


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_disc_of_smoke_becomes_a_heart(tmp_path):
    assert example("smoke").main(iterations=12, folder=tmp_path) < 0.3
    assert (tmp_path / "smoke.png").exists()


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda p: p.name)
def test_an_example_is_shorter_than_60_lines(path):
    assert len(path.read_text().splitlines()) < 60
