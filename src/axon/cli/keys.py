"""`axon keys`: make the files that let devices trust one another, and look into them."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from axon.errors import ConfigurationError
from axon.rpc.security import keys, tls
from axon.rpc.security.keys import KEY_FILE

keys_app = typer.Typer(help="Make and show keys and certificates.", no_args_is_help=True)


@keys_app.command("new")
def new(
    directory: Annotated[Path, typer.Argument(help="The folder to write to.")] = Path("axon-keys"),
    key_id: Annotated[
        str | None, typer.Option("--id", help="The key's id; random if left out.")
    ] = None,
    host: Annotated[
        list[str] | None,
        typer.Option(help="A name or IP address that clients reach the worker by. Repeatable."),
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(
            help="Functions the key may call, such as 'model/*'. Repeatable; all if none."
        ),
    ] = None,
    with_tls: Annotated[bool, typer.Option("--tls/--no-tls", help="Make TLS files too.")] = True,
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
) -> None:
    """Make a key, and certificates unless --no-tls, and say what each file is for."""
    key = keys.Key.new(key_id, allow or ("*",))
    key_file = directory.expanduser() / KEY_FILE
    if key_file.exists() and not force:
        raise ConfigurationError(f"{key_file} exists", hint="--force replaces it")
    # The certificates first: they refuse by themselves to replace others, and may refuse a host.
    files = tls.make_material(directory, hosts=host or (), overwrite=force) if with_tls else None
    _save(key_file, key)
    for line in _files_explained(key_file, files):
        typer.echo(line)
    typer.echo()
    for line in _lines_of_python(key_file, with_tls=with_tls):
        typer.echo(line)


def _save(key_file: Path, key: keys.Key) -> None:
    try:
        key_file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"cannot make {key_file.parent}: {error.strerror}") from error
    keys.save(key_file, [key])


def _files_explained(key_file: Path, files: tls.TlsFiles | None) -> list[str]:
    uses = {key_file: "the shared secret: on every worker and client, and nowhere else"}
    if files is not None:
        uses |= {
            files.ca: "whom to trust: on every worker and client",
            files.worker: "the worker's certificate: on workers",
            files.worker_key: "its private key: on workers only",
            files.client: "the client's certificate: on clients",
            files.client_key: "its private key: on clients only",
            files.ca_key: "signs further certificates: keep it off the devices",
        }
    width = max(len(path.name) for path in uses)
    return [
        f"In {shlex.quote(str(key_file.parent))}:",
        *(f"  {path.name:<{width}}  {use}" for path, use in uses.items()),
    ]


def _lines_of_python(key_file: Path, *, with_tls: bool) -> list[str]:
    options = f"key={str(key_file)!r}"
    if with_tls:
        options += f", tls={str(key_file.parent)!r}"
    scheme = "https://" if with_tls else ""
    return [
        f'worker:  axon.worker.init(host="0.0.0.0", {options})',
        f'client:  stub = axon.client.get_stub("{scheme}HOST:8000", {options})',
    ]


@keys_app.command("show")
def show(
    file: Annotated[Path, typer.Argument(help="A key file, such as axon-keys/axon.key.")],
) -> None:
    """List the keys of a file and what each may call; secrets are not shown."""
    ring = keys.load(file)
    width = max(len(key.id) for key in ring)
    for key in ring:
        typer.echo(f"{key.id:<{width}}  {', '.join(key.allow) or '(nothing)'}")
