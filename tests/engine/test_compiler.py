"""What arithmetic on packs is compiled with."""

import importlib.util

import particle_cases
import pytest
import warp as wp

from gradsim.engine.compiler import FUSED_FLAGS, WIDE_FLAGS, compiled_for_packs
from gradsim.engine.lanes import FORWARD, Lane
from gradsim.physics.soft.rollout_buffers import particles_code


@pytest.fixture
def source(tmp_path):
    """A module of its own."""
    (tmp_path / "source.py").write_text("")
    spec = importlib.util.spec_from_file_location("source_of_test_compiler", tmp_path / "source.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "dtype, width, wide", [("float32", 16, True), ("float32", 8, False), ("float64", 8, True), ("float64", 1, False)]
)
def test_only_registers_of_64_bytes_ask_for_the_widest(source, dtype, width, wide):
    compiled_for_packs(source, Lane(dtype, width))
    flags = wp.get_module_options(module=source)["cpu_compiler_flags"]
    assert FUSED_FLAGS in flags and (WIDE_FLAGS in flags) == wide


def test_flags_of_the_user_stay(source, monkeypatch):
    monkeypatch.setattr(wp.config, "cpu_compiler_flags", "-march=native -O1")
    compiled_for_packs(source, Lane("float32", 8))
    assert wp.get_module_options(module=source)["cpu_compiler_flags"] == f"-march=native -O1 {FUSED_FLAGS}"


def test_a_rollout_without_gradients_compiles_no_reverse_sweep():
    code = particles_code(tuple(group.force for group in particle_cases.groups()), Lane("float64"), "worlds")
    sweep, rest = (wp.get_module(name) for name in (code.__name__ + FORWARD, code.__name__))
    assert code.forward.module is sweep and code.backward.module is rest
    assert list(sweep.kernels.values()) == [code.forward]
    for option in ("cpu_compiler_flags", "fast_math"):
        assert sweep.options[option] == rest.options[option]
