"""The doctor finds what is there, and lives through what is broken."""

import subprocess
import sys

import pytest
import warp as wp

from gradsim.app.cli import main
from gradsim.app.commands import doctor, warm
from gradsim.errors import InputError
from gradsim.scene import Scene

FIT = f"""
import warp as wp
wp.config.cpu_compiler_flags, wp.config.optimization_level = {wp.config.cpu_compiler_flags!r}, {wp.config.optimization_level}
import warp._src.context as context
from gradsim.app.commands import warm
from gradsim.identification import synthetic
from gradsim.identification.api import least_squares
from gradsim.scene import Scene

show = lambda: print(*sorted(name for name, module in context.user_modules.items() if module.execs))
warm.compile_kernels("ball")
show()
scene, unknowns = Scene.library("ball"), ("ball.mass",)
model, trajectory = synthetic.simulate(scene, unknowns, {{}})
least_squares(scene, synthetic.float_masks(scene, trajectory), unknowns, model=model)
show()
"""  # in a process of its own, with the compiler of the tests: others have loaded kernels before


def test_this_machine_can_compile_a_kernel_and_write_video():
    findings = {f.name: f for f in doctor.examine()}
    assert set(findings) == {"packages", "extras", "processor", "kernels", "cuda", "video", "real data"}
    assert findings["kernels"].ok and "test kernel ran" in findings["kernels"].text
    assert findings["video"].ok and "libvpx-vp9" in findings["video"].text


def test_a_broken_part_is_a_finding_and_exit_code_1(monkeypatch, capsys):
    def broken():
        raise OSError("no compiler")

    monkeypatch.setattr(doctor, "kernels", broken)
    assert main.main(["doctor"]) == 1
    assert "OSError: no compiler" in capsys.readouterr().out


def test_real_data_is_looked_for_where_the_variable_says(monkeypatch, tmp_path):
    monkeypatch.setenv("GRADSIM_REAL_DATA", str(tmp_path))
    (tmp_path / "pendulum").mkdir()
    assert doctor.real_data().text == f"pendulum in {tmp_path}"
    monkeypatch.setenv("GRADSIM_REAL_DATA", str(tmp_path / "elsewhere"))
    assert doctor.real_data().ok and "GRADSIM_REAL_DATA" in doctor.real_data().text


def test_extras_are_listed_with_what_the_others_lack(monkeypatch):
    required = ["numpy>=1", "viser>=1.0; extra == 'viewer'", "ezc3d; extra == 'motion'", "rich; extra == 'motion'"]
    monkeypatch.setattr(doctor.importlib.metadata, "requires", lambda name: required)
    monkeypatch.setattr(doctor, "_is_installed", lambda package: package in ("viser", "rich"))
    assert doctor.extras().text == 'viewer installed; pip install "gradsim[…]" for motion (ezc3d)'


def test_kernels_of_a_scene_are_compiled_once(monkeypatch, capsys, tmp_path):
    compiled = []
    monkeypatch.setattr(warm, "compile_kernels", compiled.append)
    path = tmp_path / "falling.yaml"
    Scene.library("ball").save(path)
    assert main.main(["doctor", "--warm", str(path)]) == 0
    assert compiled == [str(path)] and "0 modules compiled" in capsys.readouterr().out


def test_a_fit_of_a_warm_scene_loads_no_other_kernels():
    lines = subprocess.run([sys.executable, "-c", FIT], check=True, capture_output=True, text=True).stdout.splitlines()
    warmed, fitted = (set(line.split()) for line in lines[-2:])
    assert warmed == fitted != set()


def test_scenes_to_warm_are_checked_first(tmp_path):
    blind = tmp_path / "blind.yaml"
    Scene.library("ball").model_copy(update={"camera": None}).save(blind)
    with pytest.raises(InputError, match="has no camera"):
        warm.warm([str(blind)])
    with pytest.raises(InputError, match="no scene `nowhere`"):
        warm.warm(["cube", "nowhere"])
