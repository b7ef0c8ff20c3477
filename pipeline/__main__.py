"""`python -m pipeline` is `ticdc-warehouse`; this file is also what `spark-submit` is given."""

import sys
from pathlib import Path

if sys.path[0] == str(Path(__file__).parent):
    del sys.path[0]  # a script's own folder: its modules are no packages of their own

try:
    from pipeline.cli import main
except ModuleNotFoundError as missing:
    sys.exit(
        f"PYTHON_PACKAGES: {sys.executable or 'this Python'} has no package {missing.name!r}\n"
        "  Run it in the environment that ticdc-warehouse was installed into. With spark-submit, name that "
        "environment's Python by the properties of `ticdc-warehouse config spark-submit`, or by PYSPARK_DRIVER_PYTHON."
    )

if __name__ == "__main__":
    sys.exit(main())
