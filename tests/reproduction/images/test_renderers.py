"""The sheet of one scene by all renderers."""

from PIL import Image

from gradsim.app.experiments import reproduce


def test_every_rasteriser_draws_what_mitsuba_traces_but_for_shadows(tmp_path):
    result = reproduce("renderers", tmp_path, quick=True)
    # a tenth of the floor lies in shadow, where 0.4 of the light is missing
    assert all(f["value"] < 0.08 for f in result["figures"].values())
    assert Image.open(tmp_path / "sheet.png").width > 5 * 96
