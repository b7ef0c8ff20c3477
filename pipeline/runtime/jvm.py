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
        member = _remembering(super().__getattr__(name))
        if isinstance(member, JavaClass | JavaPackage):
            self.__dict__[name] = member
        return member


class _RememberingPackage(JavaPackage):  # type: ignore[misc] # py4j is untyped
    def __getattr__(self, name: str) -> Any:
        member = self.__dict__[name] = _remembering(super().__getattr__(name))
        return member


class _RememberingClass(JavaClass):  # type: ignore[misc] # py4j is untyped
    def __getattr__(self, name: str) -> Any:
        member = super().__getattr__(name)
        if isinstance(member, JavaMember):
            self.__dict__[name] = member
        return member


def _remembering(member: Any) -> Any:
    if isinstance(member, JavaClass):
        member.__class__ = _RememberingClass
    elif isinstance(member, JavaPackage):
        member.__class__ = _RememberingPackage
    return member
