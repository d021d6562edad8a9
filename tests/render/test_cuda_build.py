"""Every kernel of the renderer compiles for CUDA, by the compiler inside Warp: without a GPU, and without a driver."""

import importlib
import pkgutil

import pytest
import torch
import warp as wp

import gradsim.render
from gradsim.engine.lanes import lane_of
from gradsim.render.antialias import passes
from gradsim.render.coverage import coverage, objective
from gradsim.render.raster import vertex_colors
from gradsim.render.softras import color

ARCHITECTURE = 80  # the oldest that CUDA 13 and current PyTorch both serve well
FILES = [m.name for m in pkgutil.walk_packages(gradsim.render.__path__, "gradsim.render.") if not m.ispkg]
MODULES = {name: importlib.import_module(name) for name in FILES if not name.endswith("kernels")}
BUILDS = {name: module._code for name, module in MODULES.items() if hasattr(module, "_code")}
BUILDS |= {"edges": passes.edge_code, "mix": passes.mix_code, "coverage": coverage.coverage_code}
BUILDS |= {"touched": passes.touched_code, "vertex_colors": vertex_colors.vertex_color_code}
BUILDS |= {"means": objective._mean_code, "profiles": objective._profile_code}
BUILDS["softras"] = lambda dtype: color.border_code(lane_of(dtype))
BUILDS["softras_pixels"] = lambda dtype: color.pixels_code(lane_of(dtype))
BUILDS["softras_color"] = lambda dtype: color.color_code(lane_of(dtype))


BRIEF = ("coverage", "edges", "softras", "gradsim.render.raster.zbuffer")  # one of each renderer


@pytest.mark.parametrize("dtype", [torch.float32, pytest.param(torch.float64, marks=pytest.mark.slow)], ids=str)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name not in BRIEF)) for name in BUILDS]
)
def test_kernels_compile_for_cuda(name, dtype, tmp_path):
    if not wp.get_cuda_toolkit_version():
        pytest.skip("this build of Warp has no CUDA compiler")
    code = BUILDS[name](dtype)
    (file,) = wp.compile_aot_module(code, arch=ARCHITECTURE, module_dir=tmp_path, use_ptx=True)
    text = file.read_text()
    for key in wp.get_module(code.__name__).kernels:
        assert f".entry {key}" in text
