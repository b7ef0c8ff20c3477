"""Java of ours: loops over objects of the JVM, of which each would be a call from Python."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

_compiling = Lock()
_done: dict[tuple[Any, Path], Any] = {}


def compiled(jvm: Any, source: Path) -> Any:
    """An object of the class in a file of Java, the same one for all that a JVM lives: py4j knows methods by names.

    Janino compiles it, as it does with the code that Spark generates. It knows no lambdas, and of generics only what it
    can ignore.
    """
    key = jvm._gateway_client, source  # noqa: SLF001 - of py4j, which is untyped
    with _compiling:
        if key not in _done:
            _done[key] = _made(jvm, source)
        return _done[key]


def cooked(jvm: Any, source: Path, loader: Any = None) -> Any:
    """Janino's compiler, with the classes of a file of Java. `loader` knows the classes that these use."""
    loader = loader or jvm.java.lang.Thread.currentThread().getContextClassLoader()
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(loader)  # that which knows the jars of the session
    compiler.cook(source.read_text(encoding="utf-8"))
    return compiler


def _made(jvm: Any, source: Path) -> Any:
    compiler = cooked(jvm, source)
    return jvm.java.lang.Class.forName(source.stem, True, compiler.getClassLoader()).newInstance()
