"""The doctor finds what is there, and lives through what is broken."""

from gradsim.app.cli import main
from gradsim.app.commands import doctor


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
