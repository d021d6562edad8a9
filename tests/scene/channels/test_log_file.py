"""Logs: CSV, MCAP and LeRobot's parquet say the same; what is wrong with a file is said."""

import json

import numpy as np
import pytest

from gradsim.errors import InputError
from gradsim.scene.channels.channel import LogFile
from gradsim.scene.channels.log_file import read_log

TIMES = np.arange(5) / 50
ANGLES, CURRENTS = np.sin(TIMES), np.array([1.0, 2.0, np.nan, 4.0, 5.0])


def csv_log(path, first=0.0):
    rows = [
        f"{first + t:.3f},{a!r},{'' if np.isnan(c) else c}"
        for t, a, c in zip(TIMES, ANGLES.tolist(), CURRENTS, strict=True)
    ]
    path.write_text("time,angle,current\n" + "\n".join(rows) + "\n")
    return LogFile(file=path)


def mcap_log(path, encoding="json"):
    writer_module = pytest.importorskip("mcap.writer")
    with path.open("wb") as file:
        writer = writer_module.Writer(file)
        writer.start()
        schema = writer.register_schema("state", "jsonschema", b"{}")
        channel = writer.register_channel("/arm.state", encoding, schema)
        for t, a, c in zip(TIMES, ANGLES.tolist(), CURRENTS.tolist(), strict=True):
            stamp = 1_700_000_000_000_000_000 + round(t * 1e9)
            writer.add_message(
                channel, stamp, json.dumps({"position": [0.0, a], "motor": {"current": c}}).encode(), stamp
            )
        writer.finish()
    return LogFile(file=path)


def lerobot_log(folder):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    (folder / "meta").mkdir()
    (folder / "data/chunk-000").mkdir(parents=True)
    features = {"observation.state": {"names": ["base", "elbow"]}, "action": {"names": None}}
    (folder / "meta/info.json").write_text(json.dumps({"features": features}))
    states = [[9.0, 9.0]] * 3 + [[0.0, a] for a in ANGLES.tolist()]
    columns = {
        "timestamp": [0.0, 0.02, 0.04, *TIMES.tolist()],
        "episode_index": [0] * 3 + [1] * 5,
        "observation.state": states,
        "action": [[0.0]] * 3 + [[c] for c in CURRENTS.tolist()],
    }
    path = folder / "data/chunk-000/file-000.parquet"
    parquet.write_table(pyarrow.table(columns), path)
    return LogFile(file=path, episode=1)


def test_formats_agree(tmp_path):
    logs = {
        ("angle", "current"): csv_log(tmp_path / "log.csv"),
        ("/arm.state.position[1]", "/arm.state.motor.current"): mcap_log(tmp_path / "log.mcap"),
        ("observation.state.elbow", "action[0]"): lerobot_log(tmp_path),
    }
    for (angle, current), log in logs.items():
        signals = read_log(log, [angle, current])
        assert np.allclose(signals[angle].times, TIMES, atol=1e-6) and np.allclose(
            signals[angle].values, ANGLES, atol=1e-6
        )
        assert signals[current].values.tolist() == [1.0, 2.0, 4.0, 5.0]  # what is not a number is left out


def test_stamps_count_from_the_start_of_the_scene_and_dates_from_the_first(tmp_path):
    log = csv_log(tmp_path / "log.csv").model_copy(update={"start": 0.02})
    assert read_log(log, ["angle"])["angle"].times[0] == pytest.approx(-0.02)
    dated = csv_log(tmp_path / "dated.csv", first=1.7e9)
    assert read_log(dated, ["angle"])["angle"].times[-1] == pytest.approx(0.08)


@pytest.mark.parametrize(
    "text, words",
    [
        ("time,angle\n0,1\n0,2\n", "does not come after"),
        ("time,angle\n0,1\n0.1,x\n", "row 3: angle is 'x'"),
        ("time,angle\n0,1\n0.1\n", "row 3: expected 2 cells"),
        ("t,angle\n0,1\n", "expected one called time"),
        ("time,angles\n0,1\n1,2\n", "did you mean `angles`"),
        ("time,angle\n0,1\n", "1 samples"),
        ("", "columns none"),
    ],
)
def test_a_wrong_table_is_refused(tmp_path, text, words):
    path = tmp_path / "log.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=words):
        read_log(LogFile(file=path), ["angle"])


def test_a_wrong_message_or_episode_is_refused(tmp_path):
    log = mcap_log(tmp_path / "log.mcap")
    for column, words in (
        ("/leg.position", "no topic"),
        ("/arm.state.position[7]", r"no `/arm.state.position\[7\]`"),
        ("/arm.state.position", "expected a number"),
    ):
        with pytest.raises(InputError, match=words):
            read_log(log, [column])
    with pytest.raises(InputError, match="encoded as flatbuffer"):
        read_log(mcap_log(tmp_path / "other.mcap", "flatbuffer"), ["/arm.state.position[0]"])
    (tmp_path / "broken.mcap").write_bytes(b"not a log")
    with pytest.raises(InputError, match="cannot read"):
        read_log(LogFile(file=tmp_path / "broken.mcap"), ["/a.b"])
    data = lerobot_log(tmp_path)
    with pytest.raises(InputError, match="no episode 7; it has 0 to 1"):
        read_log(data.model_copy(update={"episode": 7}), ["observation.state[0]"])
    with pytest.raises(InputError, match=r"\[0\] to \[1\], or .base, .elbow"):
        read_log(data, ["observation.state.wrist"])
