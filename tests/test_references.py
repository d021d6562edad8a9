"""Names and files in backticks, in docstrings of the source, are those of the code."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from source_trees import nodes

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
FILES = sorted(SOURCE.rglob("*.py"))
CODE = [path for folder in ("src", "tests", "benchmarks", "examples") for path in (ROOT / folder).rglob("*.py")]
IDENTIFIER = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
OTHERS = {  # names of other software, and examples of names that a user chooses
    "DataLoader",
    "LeRobotDataset",
    "chi2_per_n_8bit",
    "collapse_fixed_joints",
    "cuda_ad_rgb",
    "extrinsics.view_matrix",
    "flag.wind.drag",
    "kaolin.render.camera.Camera.from_args",
    "llvm_ad_rgb",
    "null_directions_8bit",
    "nvdiffrast.torch.rasterize",
    "once_differentiable",
    "pytorch3d.renderer.PerspectiveCameras",
    "pytorch3d.structures.Meshes",
    "PerspectiveCameras",
    "sharding_indexed",
    "sheet_throw",
    "starts_8bit",
    "status_8bit",
    "timeit",
    "transforms.json",
}
# First words that are a scene's name or a variable where they are followed by a dot, and a module of the same name exists.
OBJECTS = {"cloth", "cube", "fields", "gear", "ground", "image", "model", "settings", "timing", "walker"}
PACKAGES = {"gradsim", "mitsuba"}  # of other software, or the group of entry points


def identifiers(path: Path) -> Iterator[str]:
    """Every name of a file's code: variables, attributes, arguments, keys and file names in strings."""
    for node in nodes(path):
        match node:
            case ast.Name(id=name) | ast.arg(arg=name) | ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Attribute(attr=name) | ast.keyword(arg=str(name)):
                yield name
            case ast.alias(name=name, asname=other):
                yield from (*name.split("."), other or "")
            case ast.Constant(value=str(text)) if re.fullmatch(r"[\w.-]+", text):
                yield from re.split(r"[.-]", text)


def module(path: Path) -> tuple[str, ...]:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return parts[:-1] if parts[-1] == "__init__" else parts


def defined(path: Path) -> set[str]:
    """Names that a module or its classes define or import."""
    names = set()
    for node in nodes(path):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.alias(name=name, asname=other):
                names.add(other or name)
    return names


@cache  # not at import: each worker collects this file, and one runs it
def names_of_code() -> set[str]:
    return {name for path in FILES for name in (*identifiers(path), *module(path))}


@cache
def names_by_module() -> dict[tuple[str, ...], set[str]]:
    return {module(path): defined(path) for path in FILES}


def references(path: Path) -> Iterator[tuple[int, str]]:
    """Line of the definition, and what is in backticks in its docstring."""
    for node in nodes(path):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            for text in re.findall(r"`([^`\n]+)`", ast.get_docstring(node) or ""):
                yield getattr(node, "lineno", 1), text


def offenders(rule) -> list[str]:
    """Those for which a rule returns False, as file:line: reference."""
    return [
        f"{path.relative_to(SOURCE)}:{line}: {text}"
        for path in FILES
        for line, text in references(path)
        if not rule(path, text)
    ]


def exists(path: Path, text: str) -> bool:
    """False for a file that is not there, or that is the one whose docstring it is."""
    name = re.match(r"[\w/]+\.py\b", text)
    return not name or name[0] != path.name and any(f"/{file.as_posix()}".endswith(f"/{name[0]}") for file in CODE)


def named(_: Path, text: str) -> bool:
    """False for a name, with or without a call, one of whose words the code does not have."""
    name = IDENTIFIER.match(text)
    if not name or not re.fullmatch(r"(\(.*\))?", text[name.end() :]) or name[0] in OTHERS:
        return True
    return all(word in names_of_code() for word in name[0].removesuffix(".pyi").removesuffix(".py").split("."))


def resolved(_: Path, text: str) -> bool:
    """False for `module.name` where no module of this name has this one."""
    name = IDENTIFIER.match(text)
    *homes, last = name[0].split(".") if name else [""]
    if not homes or last in ("py", "pyi") or homes[0] in OBJECTS | PACKAGES or re.match(r"\.\w+$", text):
        return True
    modules = names_by_module()
    named_so = [path for path in modules if path[-len(homes) :] == tuple(homes)]
    return not named_so or any(last in modules[path] or (*path, last) in modules for path in named_so)


def test_files_in_docstrings_exist():
    assert offenders(exists) == []


def test_names_in_docstrings_are_those_of_the_code():
    assert offenders(named) == []


def test_names_of_modules_in_docstrings_are_theirs():
    assert offenders(resolved) == []


def documented(node: ast.AST) -> set[str]:
    """Names below `Args:` of a docstring."""
    block = re.search(r"^Args:\n((?:    .*\n?|\n)+)", ast.get_docstring(node) or "", re.MULTILINE)  # pyright: ignore[reportArgumentType]
    lists = re.findall(r"^    ((?:\*{0,2}\w+, )*\*{0,2}\w+):", block[1], re.MULTILINE) if block else []
    return {name.strip("* ") for names in lists for name in names.split(",")}


def arguments(node: ast.AST) -> set[str]:
    """Arguments of a function, or those of a class: fields and arguments of `__init__`."""
    match node:
        case ast.FunctionDef(args=a):
            return {x.arg for x in (*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg) if x}
        case ast.ClassDef(body=body):
            fields = {x.target.id for x in body if isinstance(x, ast.AnnAssign) and isinstance(x.target, ast.Name)}
            makers = [x for x in body if isinstance(x, ast.FunctionDef) and x.name == "__init__"]
            return fields.union(*map(arguments, makers))
    return set()


def test_arguments_in_docstrings_are_those_of_the_signature():
    wrong = [
        f"{path.relative_to(SOURCE)}:{node.lineno}: {', '.join(sorted(documented(node) - arguments(node)))}"
        for path in FILES
        for node in nodes(path)
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not documented(node) <= arguments(node)
    ]
    assert wrong == []
