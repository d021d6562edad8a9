"""Templates of kernels in sight: what `specialize` runs is a module that an editor and a type checker find."""

import ast
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"
FILES = sorted((SOURCE / "gradsim").rglob("*.py"))


@cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def typing_blocks(tree: ast.Module) -> list[ast.If]:
    blocks = [node for node in tree.body if isinstance(node, ast.If)]
    return [node for node in blocks if ast.unparse(node.test) == "TYPE_CHECKING"]


def shown(tree: ast.Module) -> dict[str, str]:
    """Dotted name of each module that a file imports for type checkers only, by its name there."""
    imports = [node for block in typing_blocks(tree) for node in block.body if isinstance(node, ast.ImportFrom)]
    return {a.asname or a.name: f"{node.module}.{a.name}" for node in imports for a in node.names}


def named(tree: ast.Module) -> dict[str, str]:
    """Constants that stand for these modules at run time, by name."""
    constants = [node for block in typing_blocks(tree) for node in block.orelse if isinstance(node, ast.Assign)]
    return {ast.unparse(node.targets[0]): ast.literal_eval(node.value) for node in constants}


def specialized(tree: ast.Module) -> list[ast.expr]:
    """First argument of every call of `specialize`."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.args]
    return [node.args[0] for node in calls if isinstance(node.func, ast.Name) and node.func.id == "specialize"]


def test_a_template_has_one_name_for_type_checkers_and_at_run_time():
    names = {path: (named(parse(path)), shown(parse(path))) for path in FILES}
    differ = {
        str(path.relative_to(SOURCE)): (name, modules.get(name), module)
        for path, (constants, modules) in names.items()
        for name, module in constants.items()
        if modules.get(name) != module
    }
    assert any(constants for constants, _ in names.values()) and differ == {}


def test_a_named_template_exists():
    modules = {module for path in FILES for module in named(parse(path)).values()}
    assert modules and [m for m in sorted(modules) if not (SOURCE / f"{m.replace('.', '/')}.py").is_file()] == []


def test_no_template_is_named_by_a_string_where_it_is_specialized():
    strings = [
        f"{path.relative_to(SOURCE)}:{argument.lineno}"
        for path in FILES
        for argument in specialized(parse(path))
        if not isinstance(argument, ast.Name | ast.Attribute)
    ]
    assert strings == []


def test_pyright_skips_no_kernels():
    lines = (SOURCE.parent / "pyproject.toml").read_text(encoding="utf-8").splitlines()
    (exclude,) = [line for line in lines if line.startswith("exclude = ")]
    assert "kernels" not in exclude and exclude.count(".py") <= 10
