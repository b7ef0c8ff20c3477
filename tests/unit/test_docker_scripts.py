"""The scripts of docker/tidb with stand-ins for TiDB's client and TiCDC's: what they say, and when they end."""

import os
import subprocess
from pathlib import Path

import pytest
import sqlglot
from sqlglot import exp

DOCKER = Path(__file__).parents[2] / "docker"
TIDB = DOCKER / "tidb"
NO_OWNER = "Error: [CDC:ErrOwnerNotFound]owner not found"
CDC = """\
#!/bin/sh
# query: one answer of the file `answers` after the other, then the changefeed itself, if it was created.
echo "$3" >> asked
if [ "$3" = create ]; then
  if [ -e busy ]; then rm busy; echo 'Error: [CDC:ErrReachMaxTry]no answer'; exit 1; fi
  if [ -e state ]; then echo 'Error: [CDC:ErrChangeFeedAlreadyExists]changefeed already exists'; exit 1; fi
  echo normal > state
  echo 'Create changefeed successfully!'
elif [ -s answers ]; then
  head -1 answers; sed -i 1d answers; exit 1
elif [ -e state ]; then
  echo "{\\"state\\": \\"$(cat state)\\", \\"checkpoint_tso\\": 1}"
else
  echo 'Error: [CDC:ErrChangeFeedNotExists]changefeed not exists, warehouse'; exit 1
fi
"""


def program(folder, name, text):
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)


def run(script, folder, **environment):
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    line = ["bash", str(TIDB / script)]
    return subprocess.run(
        line, cwd=folder, env={**os.environ, "PATH": path, **environment}, capture_output=True, text=True, check=False,
        timeout=60,
    )  # fmt: skip


@pytest.fixture
def statements(tmp_path):
    """What the workload says to TiDB in its first seconds, after the schema."""
    program(tmp_path / "bin", "mysql", f"#!/bin/sh\nhead -c 40000 >> {tmp_path}/said\n")
    program(tmp_path / "bin", "sleep", "#!/bin/sh\n")
    run("workload.sh", tmp_path, ORDERS_PER_SECOND="20")
    schema = (TIDB / "schema.sql").read_text()
    said = (tmp_path / "said").read_text()
    assert said.startswith(schema)
    return [sqlglot.parse_one(one, dialect="mysql") for one in said[len(schema) :].split(";")[:-1]]


def test_nothing_is_taken_from_an_unsigned_number_that_may_be_less(statements):
    taken = [found for statement in statements for found in statement.find_all(exp.Sub)]
    assert len(taken) > 100
    for one in taken:
        least = one.this
        assert isinstance(least, exp.Greatest | exp.If), one.sql()
        bounds = [int(literal.this) for literal in least.find_all(exp.Literal)]
        assert max(bounds) >= int(one.expression.this), one.sql()


@pytest.fixture
def ticdc(tmp_path):
    """Runs the changefeed's script against a TiCDC that first gives these answers; with what it was asked."""
    program(tmp_path, "cdc", CDC)
    program(tmp_path / "bin", "sleep", "#!/bin/sh\n")

    def told(*answers):
        (tmp_path / "answers").write_text("".join(f"{answer}\n" for answer in answers))
        (tmp_path / "asked").write_text("")
        done = run("changefeed.sh", tmp_path, CDC=str(tmp_path / "cdc"))
        return done, (tmp_path / "asked").read_text().split()

    return told


def test_the_changefeed_is_made_when_ticdc_says_that_there_is_none_and_asked_for_again(ticdc):
    done, asked = ticdc(NO_OWNER, "Error: connection refused")
    assert (done.returncode, asked) == (0, ["query", "query", "query", "create", "query"]), done.stderr
    assert done.stdout.splitlines()[-1] == "the changefeed is there, and works"


def test_a_changefeed_that_is_there_is_left_alone(ticdc):
    ticdc()
    done, asked = ticdc(NO_OWNER)
    assert (done.returncode, asked) == (0, ["query", "query"])


def test_a_try_that_fails_is_made_again(ticdc, tmp_path):
    (tmp_path / "busy").touch()
    done, asked = ticdc()
    assert (done.returncode, asked) == (0, ["query", "create", "query", "create", "query"])
    assert "ErrReachMaxTry" in done.stdout


def test_a_ticdc_without_an_owner_is_not_waited_for_without_end(ticdc):
    done, asked = ticdc(*[NO_OWNER] * 100)
    assert (done.returncode, set(asked)) == (1, {"query"})
    assert "no changefeed after two minutes" in done.stderr
    assert done.stdout.splitlines()[-1] == NO_OWNER


@pytest.mark.parametrize("state", ["failed", "stopped"])
def test_a_changefeed_that_does_not_work_is_told_with_the_next_step(ticdc, tmp_path, state):
    (tmp_path / "state").write_text(state)
    done, asked = ticdc()
    assert (done.returncode, asked) == (1, ["query"])
    assert f"does not work: {state}" in done.stderr
    assert "changefeed resume" in done.stderr


SHOWN = ["run", "tables", "quarantine", "report"]


@pytest.mark.parametrize(("fails", "code"), [(None, 0), *((command, 3 + at) for at, command in enumerate(SHOWN))])
def test_the_demo_ends_with_the_code_of_the_first_command_that_fails(tmp_path, fails, code):
    """As `docker compose run` then does; behind it nothing is shown."""
    says = f'echo "$@" >> {tmp_path}/said; case " $* " in *" {fails} "*) exit {code} ;; esac'
    program(tmp_path / "bin", "ticdc-warehouse", f"#!/bin/sh\n{says}\n")
    line, path = ["sh", str(DOCKER / "demo" / "show.sh")], f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(line, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False)
    shown = SHOWN[: SHOWN.index(fails) + 1] if fails else SHOWN
    said = (tmp_path / "said").read_text().splitlines()
    assert [next(word for word in one.split() if word in SHOWN) for one in said] == shown
    assert (done.returncode, "the report:" in done.stdout) == (code, fails is None)
