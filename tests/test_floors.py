"""The floor plan: imports only go down, and only the engine defines operations of PyTorch."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "gradsim"
PLAN = (
    (
        *(
            "errors",
            "extras",
            "files",
            "jobs",
            "mesh",
            "mesh_file",
            "net",
            "nodes",
            "picture",
            "restitution",
            "robust",
            "rotation",
            "rounding",
            "sheet",
        ),
        *(
            "sheet_shapes",
            "sizes",
            "surface",
            "tet_file",
            "tet_grid",
            "tet_mesh",
            "tet_refine",
            "tetrahedralise",
            "units",
            "unwrap",
        ),
    ),
    ("engine", "scene"),
    ("physics", "render", "video"),
    ("losses",),
    ("identify", "control"),
    ("dataset",),
    ("experiments",),
    ("app",),
)
FLOOR = {room: floor for floor, rooms in enumerate(PLAN) for room in rooms}
FILES = sorted(p for p in SOURCE.rglob("*.py") if p != SOURCE / "__init__.py")  # the roof names what is public


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported(tree: ast.AST) -> set[str]:
    """Dotted names of everything that a file imports."""
    modules = {a.name for node in ast.walk(tree) if isinstance(node, ast.Import) for a in node.names}
    members = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert not any(node.level for node in members), "imports are absolute"
    return modules | {f"{node.module}.{a.name}" for node in members for a in node.names}


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_only_go_down(path):
    here = room_of(path)
    rooms = {name.split(".")[1] for name in imported(ast.parse(path.read_text())) if name.startswith("gradsim.")}
    allowed = {here, *PLAN[0], *(room for room, floor in FLOOR.items() if floor < FLOOR[here])}
    assert rooms <= allowed, f"{here} (floor {FLOOR[here]}) imports {', '.join(sorted(rooms - allowed))}"
    assert "gradsim" not in imported(ast.parse(path.read_text())), "import the room, not the roof"


@pytest.mark.parametrize("path", [p for p in FILES if room_of(p) != "engine"], ids=lambda p: str(p.relative_to(SOURCE)))
def test_only_the_engine_defines_operations_of_pytorch(path):
    tree = ast.parse(path.read_text())
    used = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)} | imported(tree)
    assert not [name for name in used if name.endswith(("autograd.Function", "library.custom_op"))]
