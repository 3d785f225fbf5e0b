"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

KeyOption = Annotated[
    Path | None,
    typer.Option(
        envvar="AXON_KEY", metavar="FILE", help="The key file, for workers that want one."
    ),
]
TlsOption = Annotated[
    Path | None,
    typer.Option(
        envvar="AXON_TLS", metavar="DIR", help="The folder of certificates, for https:// workers."
    ),
]
