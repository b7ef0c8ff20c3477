"""What is said of an error that nobody has foreseen."""

from pipeline.errors import reason


class Java:
    """An exception of Java's, as py4j shows it."""

    def __init__(self, text, cause=None):
        self.text, self.cause = text, cause

    def getCause(self):  # noqa: N802
        return self.cause

    def toString(self):  # noqa: N802
        return self.text


class Gone:
    def getCause(self):  # noqa: N802
        raise ConnectionRefusedError


class Py4JJavaError(Exception):
    def __init__(self, java):
        super().__init__("An error occurred while calling o742.append.\n: the whole of Java's stack")
        self.java_exception = java


def test_of_an_error_of_python_its_kind_and_its_first_line():
    assert reason(ValueError("\n one\ntwo")) == "ValueError: one"
    assert reason(KeyError()) == "KeyError: "


def test_of_one_of_java_the_deepest_cause_and_not_which_call_has_failed():
    disk = Java("java.io.IOException: No space left on device\n\tat java.io")
    error = Py4JJavaError(Java("org.apache.spark.SparkException: Job aborted", Java("java.util.X: wrapped", disk)))
    assert reason(error) == "java.io.IOException: No space left on device"


def test_where_java_is_gone_what_python_knows():
    assert reason(Py4JJavaError(Gone())) == "Py4JJavaError: An error occurred while calling o742.append."
