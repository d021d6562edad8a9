"""Templates of kernels in sight: what `specialize` runs is a module that an editor and a type checker find."""

import ast
from pathlib import Path

from source_trees import nodes, tree

SOURCE = Path(__file__).parents[2] / "src"
FILES = sorted((SOURCE / "gradsim").rglob("*.py"))


def typing_blocks(path: Path) -> list[ast.If]:
    blocks = [node for node in tree(path).body if isinstance(node, ast.If)]
    return [node for node in blocks if ast.unparse(node.test) == "TYPE_CHECKING"]


def shown(path: Path) -> dict[str, str]:
    """Dotted name of each module that a file imports for type checkers only, by its name there."""
    imports = [node for block in typing_blocks(path) for node in block.body if isinstance(node, ast.ImportFrom)]
    return {a.asname or a.name: f"{node.module}.{a.name}" for node in imports for a in node.names}


def named(path: Path) -> dict[str, str]:
    """Constants that stand for these modules at run time, by name."""
    constants = [node for block in typing_blocks(path) for node in block.orelse if isinstance(node, ast.Assign)]
    return {ast.unparse(node.targets[0]): ast.literal_eval(node.value) for node in constants}


def specialized(path: Path) -> list[ast.expr]:
    """First argument of every call of `specialize`."""
    calls = [node for node in nodes(path) if isinstance(node, ast.Call) and node.args]
    return [node.args[0] for node in calls if isinstance(node.func, ast.Name) and node.func.id == "specialize"]


def test_a_template_has_one_name_for_type_checkers_and_at_run_time():
    names = {path: (named(path), shown(path)) for path in FILES}
    differ = {
        str(path.relative_to(SOURCE)): (name, modules.get(name), module)
        for path, (constants, modules) in names.items()
        for name, module in constants.items()
        if modules.get(name) != module
    }
    assert any(constants for constants, _ in names.values()) and differ == {}


def test_a_named_template_exists():
    modules = {module for path in FILES for module in named(path).values()}
    assert modules and [m for m in sorted(modules) if not (SOURCE / f"{m.replace('.', '/')}.py").is_file()] == []


def test_no_template_is_named_by_a_string_where_it_is_specialized():
    strings = [
        f"{path.relative_to(SOURCE)}:{argument.lineno}"
        for path in FILES
        for argument in specialized(path)
        if not isinstance(argument, ast.Name | ast.Attribute)
    ]
    assert strings == []


def uses_before_their_cast(function: ast.FunctionDef) -> list[str]:
    """Constants of a kernel or function of Warp that are read where they have no value yet.

    Warp 1.19 makes one variable of all uses of a constant, and `float64(constant)` turns it into one that gets its value
    there: a cast in a branch leaves it without a value behind the branch, though optimization hides that as a rule.
    """
    casts: dict[str, list[ast.expr]] = {}
    uses: dict[str, list[tuple[ast.Name, tuple[ast.AST, ...]]]] = {}

    def visit(node: ast.AST, blocks: tuple[ast.AST, ...]) -> None:
        if isinstance(node, ast.Name) and node.id.isupper():
            uses.setdefault(node.id, []).append((node, blocks))
        if isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Name):  # -X is a constant of its own
            return
        if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in ("Scalar", "float64", "int64"):
            casts.setdefault(ast.unparse(node.args[0]), []).append(node.args[0])
        for name, value in ast.iter_fields(node):
            branch = isinstance(node, ast.If | ast.For | ast.While | ast.IfExp) and name in ("body", "orelse")
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    visit(child, (*blocks, (node, name)) if branch else blocks)

    for statement in function.body:
        visit(statement, ())
    wrong = []
    for name in casts.keys() & uses.keys():
        (first, there), *others = uses[name]
        if first not in casts[name] or any(blocks[: len(there)] != there for _, blocks in others):
            wrong.append(f"{function.name}: {name}")
    return wrong


def kernels(path: Path) -> list[ast.FunctionDef]:
    functions = [node for node in nodes(path) if isinstance(node, ast.FunctionDef)]
    return [f for f in functions if any(ast.unparse(d).startswith(("wp.func", "wp.kernel")) for d in f.decorator_list)]


def test_no_constant_of_a_kernel_is_read_before_its_cast_gave_it_a_value():
    support = sorted((SOURCE.parent / "tests" / "support").glob("*_kernels.py"))
    functions = {path: kernels(path) for path in FILES + support}
    wrong = {path.name: [w for f in found for w in uses_before_their_cast(f)] for path, found in functions.items()}
    assert sum(map(len, functions.values())) > 100 and {name: w for name, w in wrong.items() if w} == {}


def test_pyright_skips_no_kernels():
    lines = (SOURCE.parent / "pyproject.toml").read_text(encoding="utf-8").splitlines()
    (exclude,) = [line for line in lines if line.startswith("exclude = ")]
    assert "kernels" not in exclude and exclude.count(".py") <= 10
