"""The layout of the package: which way imports point, how large folders and files are, how many names a room has."""

import ast
import pkgutil
import statistics
import subprocess
import sys
from collections import Counter
from pathlib import Path

import ferrodp as fd

SOURCE = Path(fd.__file__).parent
DOORS = {"errors", "_base", "_numerics"}
"""What everything may import: exceptions, checks of scalars, arrays and trees, how things look; interval arithmetic."""
LAYERS = [
    {"events"},
    {"accounting", "_observer"},
    {"random"},
    {"tickets"},
    {"sums", "clipping", "mechanisms", "testing", "correlated"},
    {"statistics", "files", "audit", "counters"},
    {"distributed"},
    {"budget"},
    {"plan"},
    {"statements"},
    {"engine", "federated", "training"},
    {"integrations"},
    {"demo", "explorer"},
    {"cli"},
]
"""The packages above the doors: each imports those before it, and others of its own layer."""
NOT_IMPORTED = {"accounting": {"mechanisms", "random", "testing"}}


def modules():
    """Return the path of every module by its dotted name."""
    found = {}
    for path in SOURCE.rglob("*.py"):
        parts = ("ferrodp", *path.relative_to(SOURCE).with_suffix("").parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()
PUBLIC = [
    name
    for name, path in MODULES.items()
    if "._" not in name and any(line.startswith("__all__") for line in path.read_text(encoding="utf-8").splitlines())
]


def imports(name):
    """Return what a module imports of this package, as (module, name in it or None), at any depth of its code."""
    return imports_in(ast.parse(MODULES[name].read_text(encoding="utf-8")))


def imports_in(tree):
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "ferrodp":
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                found.append((whole, None) if whole in MODULES else (node.module, alias.name))
        elif isinstance(node, ast.Import):
            found += [(alias.name, None) for alias in node.names if alias.name in MODULES]
    return found


def only_for_types(name):
    """Return what a module imports where only checkers of types look: it does not need it."""
    tree = ast.parse(MODULES[name].read_text(encoding="utf-8"))
    blocks = [node for node in ast.walk(tree) if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    return [each for block in blocks for part in block.body for each in imports_in(part)]


def needed(name):
    """Return the modules that have to be imported before a module: those it names, and the packages these lie in."""
    found = set()
    for target, _ in set(imports(name)) - set(only_for_types(name)):
        parts = target.split(".")
        chain = {".".join(parts[: i + 1]) for i in range(len(parts))} & MODULES.keys()
        found |= {each for each in chain if not f"{name}.".startswith(f"{each}.")}
    return found - {"ferrodp"}


def package(name):
    return name.split(".")[1] if "." in name else "ferrodp"


def cycles(graph):
    """Return groups of what needs one another (Tarjan's strongly connected components)."""
    index, low, stack, found = {}, {}, [], []

    def visit(name):
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in graph[name]:
            if other not in index:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            group = stack[stack.index(name) :]
            del stack[stack.index(name) :]
            if len(group) > 1:
                found.append(sorted(group))

    for name in graph:
        if name not in index:
            visit(name)
    return found


def rooms():
    """Return which rooms of each package need which: its folders, and its files that are in none."""
    found = {".".join(name.split(".")[:3]): set() for name in MODULES}
    for name in MODULES:
        room = ".".join(name.split(".")[:3])
        inside = {other for other in needed(name) if package(other) == package(name) and other.count(".") > 1}
        found[room] |= {".".join(other.split(".")[:3]) for other in inside} - {room}
    return found


def test_the_doors_need_nothing_but_doors():
    """Not even the package: whatever they import of it is a door, or native."""
    for name in MODULES:
        if package(name) in DOORS:
            for target, member in imports(name):
                assert (package(target) if target != "ferrodp" else member) in {*DOORS, "_native"}, (
                    name,
                    target,
                    member,
                )


def test_no_modules_need_one_another():
    assert cycles({name: needed(name) for name in MODULES}) == []


def test_no_rooms_of_a_package_need_one_another():
    graph = rooms()

    assert "ferrodp.accounting._laws" in graph["ferrodp.accounting._solve"]
    assert cycles(graph) == []


def test_imports_point_one_way():
    rank = {name: i for i, layer in enumerate([DOORS, *LAYERS]) for name in layer}
    known = {package(name) for name in MODULES} - {"ferrodp", "__main__"}
    assert known == rank.keys()

    upward = {
        f"{name} imports {target}"
        for name in MODULES
        if package(name) in rank
        for target, _ in imports(name)
        if package(target) in rank and rank[package(target)] > rank[package(name)]
    }
    assert upward == set()
    for here, there in NOT_IMPORTED.items():
        assert not {target for name in MODULES if package(name) == here for target, _ in imports(name)} & {
            name for name in MODULES if package(name) in there
        }


def test_underscore_names_are_read_within_their_own_package_alone():
    foreign = set()
    for name in MODULES:
        for target, member in imports(name):
            parts = [*target.split("."), *([member] if member else [])]
            for i, part in enumerate(parts):
                owner = ".".join(parts[:i])
                if owner == "ferrodp._base":
                    continue  # its modules are for the whole package
                if part.startswith("_") and not part.startswith("__") and not f"{name}.".startswith(f"{owner}."):
                    foreign.add(f"{name} reads {'.'.join(parts)}")

    assert foreign == set()


def test_no_folder_has_more_than_fifteen_files():
    sizes = Counter(path.parent for path in MODULES.values())

    assert {str(folder): size for folder, size in sizes.items() if size > 15} == {}


def test_the_median_file_has_at_most_250_lines():
    assert statistics.median(len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES.values()) <= 250


def test_the_map_of_the_house_has_at_most_250_lines_of_100_columns():
    lines = (Path(__file__).parents[1] / "ARCHITECTURE.md").read_text(encoding="utf-8").splitlines()

    assert len(lines) <= 250
    assert [line for line in lines if len(line) > 100] == []


def test_accounting_names_at_most_seventy_things():
    assert len(fd.accounting.__all__) <= 70


def test_every_package_of_ferrodp_is_public_or_starts_with_an_underscore():
    packages = [found.name for found in pkgutil.iter_modules(fd.__path__) if not found.name.startswith("_")]

    assert [name for name in packages if f"ferrodp.{name}" not in PUBLIC] == []


IMPORT_EACH_FIRST = """
import importlib, os, sys, traceback
import numpy, scipy.special, scipy.stats  # which have no part in this, and take most of the time
import ferrodp  # which is always there before its modules
failed = []
for name in sys.argv[1:]:
    child = os.fork()
    if not child:
        try:
            importlib.import_module(name)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        failed.append(name)
sys.exit(f"not importable first: {failed}" if failed else 0)
"""


def test_every_public_module_can_be_imported_first():
    """Each in a process that has none of the others; all of these are forks of one, so that numpy is loaded once."""
    assert len(PUBLIC) > 50
    ended = subprocess.run([sys.executable, "-c", IMPORT_EACH_FIRST, *PUBLIC], capture_output=True, text=True)

    assert ended.returncode == 0, ended.stderr


def test_a_module_that_cannot_be_imported_is_found():
    ended = subprocess.run(
        [sys.executable, "-c", IMPORT_EACH_FIRST, "json", "no_such_module"], capture_output=True, text=True
    )

    assert ended.returncode == 1
    assert "not importable first: ['no_such_module']" in ended.stderr
