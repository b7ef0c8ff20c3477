"""py4j's way to the JVM, without asking it for the same names again and again."""

from __future__ import annotations

from typing import Any

from py4j.java_gateway import JavaClass, JavaMember, JavaPackage, JVMView


class RememberingView(JVMView):  # type: ignore[misc] # py4j is untyped
    """A view of the JVM that looks each package, each class and each static method up once.

    py4j asks the JVM for them at every call of a `functions.*`, and the JVM opens every jar for a name that is no
    class: half a millisecond a call, a tenth of a small batch's time.
    """

    def __getattr__(self, name: str) -> Any:
        found = _remembering(super().__getattr__(name))
        if isinstance(found, JavaClass | JavaPackage):
            self.__dict__[name] = found
        return found


class _RememberingPackage(JavaPackage):  # type: ignore[misc] # py4j is untyped
    def __getattr__(self, name: str) -> Any:
        found = self.__dict__[name] = _remembering(super().__getattr__(name))
        return found


class _RememberingClass(JavaClass):  # type: ignore[misc] # py4j is untyped
    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        if isinstance(found, JavaMember):
            self.__dict__[name] = found
        return found


def _remembering(found: Any) -> Any:
    if isinstance(found, JavaClass):
        found.__class__ = _RememberingClass
    elif isinstance(found, JavaPackage):
        found.__class__ = _RememberingPackage
    return found
