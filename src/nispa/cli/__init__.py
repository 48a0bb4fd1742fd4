"""The ``nispa`` command. One file per command group; nothing heavy is imported before it is needed."""

from __future__ import annotations

import sys

import cyclopts

from nispa import __version__
from nispa.cli import compare as compare_commands
from nispa.cli import data as data_commands
from nispa.cli import export as export_commands
from nispa.cli import export_log as export_log_commands
from nispa.cli import looking, teaching
from nispa.cli import paper as paper_commands
from nispa.cli import report as report_commands
from nispa.cli import run as run_commands
from nispa.cli import serve as serve_commands
from nispa.cli import tune as tune_commands
from nispa.errors import NispaError

app = cyclopts.App(
    name="nispa",
    help="Continual learning in sparse networks: task after task in one network, nothing forgotten.",
    version=__version__,
    help_format="plaintext",
)
run_commands.register(app)
compare_commands.register(app)
paper_commands.register(app)
tune_commands.register(app)
teaching.register(app)
looking.register(app)
report_commands.register(app)
export_log_commands.register(app)
serve_commands.register(app)
export_commands.register(app)
app.command(data_commands.app)


def main(tokens: list[str] | None = None) -> None:
    """Run the command; what a user can mend is one line on stderr and exit code 2, no memory is 1.

    ``tokens`` stand for sys.argv where a test runs it.
    """
    try:
        code = app(tokens, exit_on_error=False, print_error=False, result_action="return_value")
    except cyclopts.CycloptsError as error:
        command = " ".join(["nispa", *(error.command_chain or ())])
        said = " ".join(str(error).split()).rstrip(".")
        print(f"{command}: {said}; see {command} --help", file=sys.stderr)  # noqa: T201
        raise SystemExit(2) from None
    except MemoryError as error:
        said = f"not enough memory ({error})" if str(error) else "not enough memory"
        print(f"nispa: {said}; take a smaller network, batch or data set", file=sys.stderr)  # noqa: T201
        raise SystemExit(1) from None
    except NispaError as error:
        print(f"nispa: {error}", file=sys.stderr)  # noqa: T201
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        print("nispa: interrupted; nispa resume DIR goes on where it stopped", file=sys.stderr)  # noqa: T201
        raise SystemExit(130) from None
    except BrokenPipeError:
        raise SystemExit(1) from None
    raise SystemExit(code if isinstance(code, int) else 0)
