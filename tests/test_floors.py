"""The floor plan: imports only go down, and only the engine defines operations of PyTorch."""

import ast
import graphlib
from functools import cache
from pathlib import Path

from floor_plan import FLOORS
from source_trees import nodes

TESTS = Path(__file__).parent
SOURCE = TESTS.parent / "src" / "gradsim"
OPERATIONS = ("Function", "custom_op")
MAKERS = ("autograd.Function", "library.custom_op")
FLOOR = {package: floor for floor, packages in enumerate(FLOORS) for package in packages}
PEERS = {  # tests of the library that take a reference from the reproduction, and why
    "identification/fields/test_answer.py": "a soft solid in NumPy, which shares no code with the library",
    "identification/test_long_clip.py": "a rigid body in SciPy's DOP853, which shares no code with the library",
    "physics/rigid/test_events.py": "a rigid body in SciPy's DOP853, which shares no code with the library",
}
ROOF = {SOURCE / "__init__.py", SOURCE / "__main__.py"}  # names what is public, and runs the command line
FILES = sorted(p for p in SOURCE.rglob("*.py") if p not in ROOF)


def package_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


@cache
def imported(path: Path) -> frozenset[str]:
    """Dotted names of everything that a file imports."""
    modules = {a.name for node in nodes(path) if isinstance(node, ast.Import) for a in node.names}
    members = [node for node in nodes(path) if isinstance(node, ast.ImportFrom)]
    return frozenset(modules | {f"{'.' * node.level}{node.module}.{a.name}" for node in members for a in node.names})


def offenders(rule) -> list[str]:
    """`file: what is wrong` of every source file for which the rule returns a complaint."""
    complaints = ((path, rule(path)) for path in FILES)
    return [f"{path.relative_to(SOURCE)}: {complaint}" for path, complaint in complaints if complaint]


def upward(path: Path) -> str:
    here, names = package_of(path), imported(path)
    packages = {name.split(".")[1] for name in names if name.startswith("gradsim.")}
    allowed = {here, *FLOORS[0], *(package for package, floor in FLOOR.items() if floor < FLOOR[here])}
    return ", ".join(sorted(packages - allowed))


def test_every_package_stands_on_a_floor():
    assert {package_of(path) for path in FILES} == FLOOR.keys()


def test_imports_only_go_down():
    assert offenders(upward) == []


def test_no_files_import_each_other_in_a_circle():
    """Imports inside of functions and for type checkers included; `__init__` files hand on names, and are left out."""
    dotted = {path: ".".join(("gradsim", *path.relative_to(SOURCE).with_suffix("").parts)) for path in FILES}
    known = {name for path, name in dotted.items() if path.name != "__init__.py"}
    files = {name: path for path, name in dotted.items() if name in known}
    targets = lambda path: {n if n in known else n.rpartition(".")[0] for n in imported(path)} & known - {dotted[path]}
    try:
        graphlib.TopologicalSorter({name: targets(path) for name, path in files.items()}).prepare()
    except graphlib.CycleError as error:
        raise AssertionError(" -> ".join(error.args[1])) from None


def test_imports_are_absolute_and_of_packages():
    relative = lambda path: ", ".join(n for n in imported(path) if n.startswith(".") or n == "gradsim")
    assert offenders(relative) == []


def test_the_library_does_not_import_the_reproduction():
    paper = lambda path: ", ".join(n for n in imported(path) if n.startswith("gradsim_reproduction"))
    assert offenders(paper) == []


def test_tests_of_the_library_run_without_the_reproduction():
    """Those of the reproduction, of the benchmarks and of kept results are in tests/reproduction."""
    files = [path.relative_to(TESTS) for path in TESTS.rglob("*.py")]
    core = [path for path in files if path.parts[0] != "reproduction"]
    users = {str(p) for p in core if any(n.startswith("gradsim_reproduction") for n in imported(TESTS / p))}
    assert users == PEERS.keys()


def test_only_the_engine_defines_operations_of_pytorch():
    def operations(path: Path) -> str:
        if package_of(path) == "engine":
            return ""
        used = {ast.unparse(n) for n in nodes(path) if isinstance(n, ast.Attribute) and n.attr in OPERATIONS}
        return ", ".join(sorted(name for name in used | imported(path) if name.endswith(MAKERS)))

    assert offenders(operations) == []
