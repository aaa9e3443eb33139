"""The `ict` command, a few verbs a file; `options` holds the options that verbs share, `messages` prints.

Each verb is thin: it checks its arguments, calls one function and prints the result. May import every folder; a verb
imports its code only when it runs, so that `ict --help` and `ict list` do not wait for torch.
"""

import errno
import os
import warnings
from collections.abc import Callable
from typing import Annotated

import typer

from ict import __version__
from ict.base.errors import Diverged, RankLost, UserError, is_out_of_memory
from ict.base.interrupts import stops_exit
from ict.cli.compare import compare, demo
from ict.cli.data import data, shard
from ict.cli.embed import cache, embed
from ict.cli.fit import export, fit, predict
from ict.cli.label import label
from ict.cli.listing import list_names, show
from ict.cli.messages import fail, warn
from ict.cli.paper import figure, table
from ict.cli.studies import search, trials
from ict.cli.train import evaluate, train

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

VERBS: dict[str, Callable[..., None]] = {  # in the order of `ict --help`
    "train": train,
    "evaluate": evaluate,
    "fit": fit,
    "predict": predict,
    "export": export,
    "label": label,
    "embed": embed,
    "cache": cache,
    "show": show,
    "list": list_names,
    "data": data,
    "shard": shard,
    "figure": figure,
    "demo": demo,
    "table": table,
    "compare": compare,
    "search": search,
    "trials": trials,
}

app = typer.Typer(
    name="ict",
    help="Interpolation Consistency Training: learn from few labels and many unlabeled examples.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # rich would remove text in brackets, such as defaults
)
for name, verb in VERBS.items():
    app.command(name)(verb)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"ict {__version__}")
        raise typer.Exit


@app.callback()
def root(
    context: typer.Context,
    version: Annotated[  # noqa: ARG001
        bool, typer.Option("--version", help="Show the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    if os.environ.get("WORLD_SIZE", "1") != "1" and context.invoked_subcommand != "train":
        raise UserError(f"ict {context.invoked_subcommand} cannot run under torchrun: only ict train can.")


def main() -> None:
    """Run the command. A user's mistake is one sentence on stderr and exit code 2."""
    warnings.showwarning = warn
    try:
        with stops_exit():
            app()
    except UserError as problem:
        fail(str(problem), 2)
    except Diverged as problem:
        fail(f"{problem} The last good checkpoint is still there.", 1)
    except RankLost as problem:
        fail(f"{problem} Run the same command with --resume to continue from the last checkpoint.", 1)
    except OSError as problem:
        if problem.strerror is None:
            raise
        advice = "make room there" if problem.errno in _FULL else "check its place and its permissions"
        fail(f"{problem.filename or 'a file'}: {problem.strerror}: {advice}, then run the same command again.", 2)
    except (MemoryError, RuntimeError) as problem:
        if not is_out_of_memory(problem):
            raise
        fail("there is not enough memory: use fewer or smaller examples, or a smaller batch or network.", 2)
