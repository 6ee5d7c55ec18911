"""Parts of several test modules are in a helper module: a test module can be moved, split or removed by itself."""

import ast
from pathlib import Path

TESTS = Path(__file__).parent


def imported_by(file: Path) -> set[str]:
    """The modules that `file` imports, and each name that could be one."""
    found: set[str] = set()
    for each in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(each, ast.ImportFrom):
            found |= {f"{each.module}", *(f"{each.module}.{name.name}" for name in each.names)}
        elif isinstance(each, ast.Import):
            found |= {name.name for name in each.names}
    return found


def test_no_test_module_imports_from_another_one() -> None:
    modules = {file: ".".join(file.relative_to(TESTS.parent).with_suffix("").parts) for file in TESTS.rglob("*.py")}
    of_tests = {name for file, name in modules.items() if file.name.startswith("test_")}
    assert {name: found for file, name in modules.items() if (found := of_tests & imported_by(file))} == {}
