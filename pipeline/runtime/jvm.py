"""py4j's way to the JVM, without questions whose answers are known."""

from __future__ import annotations

from typing import Any

from py4j.java_collections import JavaIterator
from py4j.java_gateway import JavaClass, JavaMember, JavaPackage, JVMView
from py4j.protocol import CALL_COMMAND_NAME, END_COMMAND_PART, Py4JJavaError, get_return_value

_NEXT = "next"
_END = "java.util.NoSuchElementException"


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


def end_iterations_at_once() -> None:
    """Let a loop over a Java collection end without asking what kind of error its end is.

    In Java an iterator ends by an exception, and PySpark asks the JVM thirteen times whether it is one of its own: 2.8
    ms a loop. Besides, py4j takes any error for the end, so that a list of files could be cut where a store fails.
    """
    JavaIterator.next = JavaIterator.__next__ = _next


def _next(iterator: Any) -> Any:
    target, client = iterator._target_id, iterator._gateway_client  # noqa: SLF001 - of py4j, which is untyped
    answer = client.send_command(f"{CALL_COMMAND_NAME}{target}\n{_NEXT}\n{END_COMMAND_PART}")
    try:
        return get_return_value(answer, client, target, _NEXT)
    except Py4JJavaError as error:
        if error.java_exception.getClass().getName() != _END:
            raise
    raise StopIteration
