"""The command line: what it imports, what it prints where, and its exit codes."""

import json
import os
import shlex
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import get_args

import pytest

import gradsim
from gradsim.app import experiments
from gradsim.app.cli import main, parser
from gradsim.app.cli.overview import EXAMPLES
from gradsim.app.commands import fit as runs
from gradsim.app.report import report
from gradsim.errors import InputError
from gradsim.scene import Scene

HEAVY = ("torch", "warp", "matplotlib", "trimesh", "av", "scipy", "pydantic", "numpy")


@pytest.fixture
def fitting(monkeypatch, tmp_path):
    """Replace the work of `gradsim fit` by a result or an error; returns what it was called with."""
    calls = []
    monkeypatch.chdir(tmp_path)
    for name in ("cube.yaml", "cube.webm", "masks.json"):
        (tmp_path / name).touch()

    def replace(outcome):
        def fit(job, out, resume, progress):
            calls.append(job)
            print("chatter of a library")
            progress.stage("fitting")
            progress.update(1, 0.5, {"cube.mass": (5.0, float("nan"))})
            if isinstance(outcome, BaseException):
                raise outcome
            return outcome

        monkeypatch.setattr(runs, "fit", fit)
        return calls

    return replace


def run_fit(*more: str) -> int:
    return main.main(["fit", "cube.yaml", "--video", "cube.webm", "--unknown", "cube.mass", "--out", "run", *more])


@pytest.mark.parametrize("words", [[], ["--help"], ["fit", "--help"], ["control", "--help"]], ids=" ".join)
def test_help_imports_nothing_heavy(words):
    program = f"""
import sys
from gradsim.app.cli import main as cli
try:
    {words} and cli.main({words})
except SystemExit as end:
    assert end.code == 0
print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr)
assert "tyro" in sys.modules or {words} in ([], ["--help"])
assert "tyro" not in sys.modules or {words} not in ([], ["--help"])  # a fifth of a second
"""
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60)
    assert done.stderr.strip() == "[]"
    assert bool(done.stdout) == bool(words)


def test_the_overview_names_every_command_and_each_example_parses(capsys):
    assert main.main(["--help"]) == main.main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    marks = [mark for _, *marks in map(get_args, get_args(parser._Commands)) for mark in marks]
    assert [mark.name for mark in marks if mark.name not in EXAMPLES] == [] and len(marks) == len(EXAMPLES)
    assert max(map(len, lines)) <= 100 and all(any(f"  {name} " in line for line in lines) for name in EXAMPLES)
    for name, example in EXAMPLES.items():
        program, *words = shlex.split(example.partition(" > ")[0])
        assert (program, words[0]) == ("gradsim", name) and parser.parse(words)


@pytest.mark.parametrize("command", ["fit", "render", "reproduce"])
def test_the_help_of_a_command_ends_its_words_with_an_example(command, capsys):
    for _ in range(2):
        with pytest.raises(SystemExit):
            main.main([command, "--help"])
        text = " ".join(capsys.readouterr().out.split())
        assert text.count(f"Example: {EXAMPLES[command]}") == 1


def test_version_is_that_of_the_package(capsys):
    assert main.main(["--version"]) == 0
    assert capsys.readouterr().out == f"gradsim {version('gradsim')}\n" == f"gradsim {gradsim.__version__}\n"


@pytest.mark.parametrize(
    ("status", "code"),
    [("ok", 0), ("failed", 1), ("unidentifiable", 3), ("mismatch", 3), ("approximate", 3), ("interrupted", 130)],
)
def test_exit_code_of_a_fit_follows_its_verdict(fitting, answered, status, code, capsys):
    fitting(answered | {"status": status})
    assert run_fit() == code
    assert f"{status}:" in capsys.readouterr().out


def test_bad_input_is_one_panel_without_traceback(fitting, capsys):
    fitting(InputError("cube.webm is empty; film it again."))
    assert run_fit() == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "bad input" in err and "cube.webm is empty; film it again." in err and "Traceback" not in err


def test_a_scene_that_pydantic_refuses_is_bad_input(fitting, capsys):
    with pytest.raises(ValueError) as refused:
        Scene.model_validate({"nonsense": 1})
    fitting(refused.value)
    assert run_fit() == 2


def test_a_missing_file_is_bad_input(fitting, capsys):
    fitting(FileNotFoundError("cube.yaml"))
    assert run_fit() == 2


def test_an_unforeseen_error_is_a_failed_run(fitting, capsys):
    fitting(RuntimeError("the disk is full"))
    assert run_fit() == 1
    err = capsys.readouterr().err
    assert "RuntimeError: the disk is full" in err and "--debug" in err and "Traceback" not in err


def test_debug_shows_the_traceback(fitting, capsys):
    fitting(RuntimeError("the disk is full"))
    assert run_fit("--debug") == 1
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["fti"], ["fit", "--bogus"], ["fit", "cube.yaml", "--starts", "many"]])
def test_wrong_usage_is_bad_input(words, capsys):
    with pytest.raises(SystemExit) as end:
        main.main(words)
    assert end.value.code == 2
    assert capsys.readouterr().out == ""


def test_json_is_all_that_stdout_gets(fitting, answered, capsys):
    fitting(answered)
    assert run_fit("--json") == 0
    out, err = capsys.readouterr()
    assert json.loads(out) == answered
    assert "chatter of a library" in err and "fitting" in err


def test_unknowns_may_be_listed_or_repeated(fitting, answered, capsys):
    calls = fitting(answered)
    run_fit("--unknown", "ground.friction:0.2:1", "cube.position.x:-1:1", "--starts", "3")
    (job,) = calls
    assert job.unknowns == ("cube.mass", "ground.friction:0.2:1", "cube.position.x:-1:1")
    assert (job.seed, job.starts, job.noise, job.mask) == (0, 3, None, None)


def test_every_option_of_a_fit_reaches_its_job(fitting, answered):
    calls = fitting(answered)
    run_fit(
        "--profile", "--robust", "huber", "--noise", "0.01", "--seed", "4", "--frames", "0:9", "--background", "median"
    )
    (job,) = calls
    assert (job.profile, job.robust, job.noise, job.seed, job.background) == (True, "huber", 0.01, 4, "median")
    run_fit("--mask", "grabcut:1,2,3,4@5", "--category", "box,hand")
    assert (calls[1].mask, calls[1].category) == ("grabcut:1,2,3,4@5", "box,hand")
    run_fit("--mask", "masks.json", "--background", "mog2")
    assert (calls[2].mask, calls[2].background) == (Path("masks.json"), "mog2")


@pytest.mark.parametrize(
    ("status", "met", "code"), [("ok", True, 0), ("unidentifiable", True, 0), ("ok", False, 3), ("failed", True, 1)]
)
def test_exit_code_of_an_experiment_follows_its_goals_not_its_status(
    monkeypatch, answered, unanswered, capsys, status, met, code
):
    figures = {"flagged": {"value": 1.0, "paper": None, "goal": 1, "ok": met}}
    content = unanswered | {"status": status, "figures": figures}
    monkeypatch.setattr(experiments, "reproduce", lambda *a, **k: content)
    monkeypatch.setattr(report, "write_report", lambda folder: None)
    assert main.main(["reproduce", "no-push", "--out", "run", "--quick"]) == code
    out = capsys.readouterr().out
    assert "flagged" in out and "report.html" in out
    assert ("open: Multiplying" in out) == (status != "failed")  # what follows from the curvature of an answer


def test_import_writes_a_scene_and_says_what_it_left_out(monkeypatch, tmp_path, capsys):
    from gradsim.scene.importers import newton

    asked = []

    def load(*arguments):
        asked.append(arguments)
        return newton.Imported(Scene.library("cube"), ("left out: [a] lamp",))

    monkeypatch.setattr(newton, "load", load)
    target = tmp_path / "yard.yaml"
    assert main.main(["import", "yard.xml", "--out", str(target), "--skip"]) == 0
    assert asked == [(Path("yard.xml"), tmp_path / "yard_meshes", True, False)]
    assert Scene.load(target).bodies == Scene.library("cube").bodies
    said = capsys.readouterr()
    assert f"scene: {target}" in said.out and "note: left out: [a] lamp" in said.err


def test_a_stopped_experiment_says_whether_its_parts_are_kept(monkeypatch, capsys, tmp_path):
    def stop(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(experiments, "reproduce", stop)
    words = ["reproduce", "joint", "--out", str(tmp_path)]
    assert main.main(words) == 130
    assert "kept" not in capsys.readouterr().err
    (tmp_path / "finished.jsonl").write_text("")
    assert main.main(words) == 130
    assert "same command again" in capsys.readouterr().err


def test_a_run_folder_that_is_not_there_cannot_be_resumed(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main.main(["fit", "--resume", "gone"]) == 2
    assert "the run folder gone does not exist" in " ".join(capsys.readouterr().err.replace("│", " ").split())


@pytest.mark.parametrize(("environment", "threads"), [({}, "1"), ({"OMP_NUM_THREADS": "2"}, "2")])
def test_a_command_has_one_thread_of_pytorch_unless_the_environment_has_another_number(environment, threads):
    program = "from gradsim.app.cli.main import main; main(['--version']); import torch; print(torch.get_num_threads())"
    rest = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, env=rest | environment, capture_output=True, text=True
    )
    assert done.stdout.split()[-1] == threads


def test_the_help_of_reproduce_names_every_experiment(capsys):
    with pytest.raises(SystemExit):
        main.main(["reproduce", "--help"])
    text = "".join(capsys.readouterr().out.split())  # names may be broken over lines
    assert [name for name in experiments.experiments() if name not in text] == []


def test_output_that_nobody_reads_to_its_end_is_no_error():
    code = "import sys; from gradsim.app.cli.main import main; sys.exit(main(['scenes', 'cube']))"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b"" and process.wait() == 0


READERS = [
    ["fit", "cube.yaml", "--unknown", "cube.mass:2:12"],
    ["fit", "cube.yaml", "--unknown", "cube.mass:2:12", "--video", "other.webm"],
    ["compare", "cube.yaml", "--unknown", "cube.mass:2:12", "--without", "friction"],
    ["explain", "cube.yaml", "--unknown", "cube.mass:2:12"],
    ["landscape", "cube.yaml", "--unknown", "cube.mass:2:12"],
]


@pytest.mark.parametrize("words", READERS, ids=["fit", "fit of two clips", "compare", "explain", "landscape"])
def test_all_commands_read_videos_by_the_same_options(words, monkeypatch, tmp_path):
    """Each hands mask, background, frames, ignored pixels, loss and noise to `from_video` as they were stated."""
    from gradsim.app import clip_fit
    from gradsim.app.commands import explain, landscape
    from gradsim.identification.observation import clip

    calls = []

    def read(scene, path, mask=None, noise=None, camera="camera", **options):
        calls.append({"mask": mask and str(mask), "noise": noise, **options})
        raise InputError("that is enough")

    for module in (clip_fit, explain, landscape, clip):
        monkeypatch.setattr(module, "from_video", read)
    monkeypatch.chdir(tmp_path)
    Scene.library("cube").save(tmp_path / "cube.yaml")
    for name in ("cube.webm", "other.webm", "m.webm", "i.webm"):
        (tmp_path / name).touch()
    stated = {"mask": "m.webm", "background": "mog2", "frames": "0:9", "robust": "huber", "category": "box"}
    options = [text for name, value in stated.items() for text in (f"--{name}", value)]
    main.main([*words, "--video", "cube.webm", *options, "--ignore", "i.webm", "--noise", "0.02", "--out", "run"])
    (call,) = calls
    assert {name: call[name] for name in stated} == stated
    assert (call["noise"], call["ignore"]) == (0.02, Path("i.webm")) and not (tmp_path / "run").exists()


@pytest.mark.parametrize("command", ["explain", "landscape"])
def test_an_option_of_videos_without_a_video_is_bad_input(command, capsys):
    words = [command, "cube", "--unknown", "cube.mass:2:12", "--background", "median", "--out", "run"]
    assert main.main(words) == 2
    assert "--background is of a video, and none is given" in capsys.readouterr().err


def test_a_fit_without_out_goes_to_its_own_folder_and_replaces_no_result(
    fitting, answered, monkeypatch, tmp_path, capsys
):
    calls = fitting(answered)
    monkeypatch.chdir(tmp_path)
    words = ["fit", "cube.yaml", "--video", "cube.webm", "--unknown", "cube.mass"]
    assert main.main(words) == 0
    assert str(Path("runs/fit/report.html")) in capsys.readouterr().out.replace("\n", "")
    (tmp_path / "runs" / "fit").mkdir(parents=True)
    (tmp_path / "runs" / "fit" / "result.json").write_text("{}")
    assert main.main(words) == 2
    assert "holds a result; give --out DIR" in " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert main.main([*words, "--resume"]) == 0 and main.main([*words, "--out", "runs/fit"]) == 0
    assert len(calls) == 3


@pytest.mark.parametrize(
    "command", ["fit", "compare", "explain", "landscape", "plan", "capture", "track", "control", "demo"]
)
def test_every_command_that_makes_a_folder_has_one_by_default(command, capsys):
    with pytest.raises(SystemExit):
        main.main([command, "--help"])
    assert f"(default:runs/{command})" in "".join(capsys.readouterr().out.split()).replace("││", "").replace("│", "")


@pytest.mark.parametrize("command", ["generate", "verify", "repair", "show", "export", "plan"])
def test_the_help_of_every_command_of_data_sets_has_an_example_that_parses(command, capsys):
    with pytest.raises(SystemExit):
        main.main(["dataset", command, "--help"])
    lines = capsys.readouterr().out.splitlines()
    example = next(line.removeprefix("Example: ") for line in lines if line.startswith("Example: "))
    assert example.startswith(f"gradsim dataset {command} ")
    parser.parse(example.split()[1:])


def test_ctrl_c_before_a_command_runs_is_one_word(monkeypatch, capsys):
    def stopped(words):
        raise KeyboardInterrupt

    monkeypatch.setattr(parser, "parse", stopped)
    assert main.main(["scenes"]) == 130
    assert capsys.readouterr().err == "stopped\n"
