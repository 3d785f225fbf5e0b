"""`axon keys new` and `axon keys show`."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from axon.cli.keys import keys_app
from axon.errors import ConfigurationError
from axon.rpc.security.keys import Key, load, save
from axon.rpc.security.tls import TlsFiles, client_context, worker_context


def axon_keys(*arguments: str | Path) -> Result:
    return CliRunner().invoke(keys_app, [str(argument) for argument in arguments])


def refusal(*arguments: str | Path) -> str:
    """The message of the error that the command ends with."""
    result = axon_keys(*arguments)
    assert isinstance(result.exception, ConfigurationError)
    return str(result.exception)


def test_new_makes_a_key_and_usable_certificates(tmp_path: Path) -> None:
    folder = tmp_path / "made"
    result = axon_keys("new", folder, "--id", "lab", "--host", "pi.local", "--host", "10.0.0.3")
    assert result.exit_code == 0
    key = load(folder / "axon.key").only()
    assert (key.id, key.allow) == ("lab", ("*",))
    assert len(TlsFiles.within(folder).existing()) == 6
    worker_context(folder, mutual=True)
    client_context(folder)


def test_new_says_what_each_file_is_for_and_never_the_secret(tmp_path: Path) -> None:
    result = axon_keys("new", tmp_path)
    for path in tmp_path.iterdir():
        assert f"  {path.name} " in result.output
    assert load(tmp_path / "axon.key").only().secret.hex() not in result.output


def test_new_prints_two_lines_of_python_that_parse(tmp_path: Path) -> None:
    import ast

    result = axon_keys("new", tmp_path)
    lines = [line.partition(":  ")[2] for line in result.output.splitlines() if "axon." in line]
    code = [line for line in lines if line]
    assert len(code) == 2
    for line in code:
        ast.parse(line)
        assert f"key={str(tmp_path / 'axon.key')!r}" in line
        assert f"tls={str(tmp_path)!r}" in line


def test_new_without_tls_makes_the_key_alone(tmp_path: Path) -> None:
    result = axon_keys("new", tmp_path, "--no-tls")
    assert result.exit_code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["axon.key"]
    assert "tls=" not in result.output
    assert "https" not in result.output


def test_new_has_a_folder_of_its_own_by_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert axon_keys("new", "--no-tls").exit_code == 0
    assert load(tmp_path / "axon-keys" / "axon.key").only().id.startswith("key-")


def test_new_keeps_to_the_allow_list(tmp_path: Path) -> None:
    axon_keys("new", tmp_path, "--no-tls", "--allow", "rpc/*", "--allow", "model/train")
    assert load(tmp_path / "axon.key").only().allow == ("rpc/*", "model/train")


def test_new_does_not_replace_a_key_unless_forced(tmp_path: Path) -> None:
    axon_keys("new", tmp_path, "--no-tls", "--id", "old")
    assert "--force replaces it" in refusal("new", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["axon.key"]
    assert load(tmp_path / "axon.key").only().id == "old"
    assert axon_keys("new", tmp_path, "--id", "young", "--force").exit_code == 0
    assert load(tmp_path / "axon.key").only().id == "young"


def test_new_does_not_replace_certificates_unless_forced(tmp_path: Path) -> None:
    files = TlsFiles.within(tmp_path)
    files.ca.write_text("mine")
    assert "already holds ca.pem" in refusal("new", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["ca.pem"]
    assert axon_keys("new", tmp_path, "--force").exit_code == 0
    assert files.ca.read_text() != "mine"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--id", "a b"], "cannot be a key's id"),
        (["--host", "pi:8000"], "neither a host name"),
        (["--allow", "/rpc/*"], "no leading slash"),
    ],
)
def test_new_refuses_before_writing_anything(
    tmp_path: Path, arguments: list[str], message: str
) -> None:
    folder = tmp_path / "made"
    assert message in refusal("new", folder, *arguments)
    assert not folder.exists()


def test_new_names_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "cannot make" in refusal("new", tmp_path / "file" / "folder", "--no-tls")


def test_show_lists_ids_and_allow_lists_but_no_secret(tmp_path: Path) -> None:
    keys = [Key.new("lab"), Key.new("camera-1", ("rpc/*", "video/*")), Key.new("none", ())]
    save(tmp_path / "axon.key", keys)
    result = axon_keys("show", tmp_path / "axon.key")
    assert result.exit_code == 0
    assert result.output.splitlines() == [
        "lab       *",
        "camera-1  rpc/*, video/*",
        "none      (nothing)",
    ]
    assert not any(key.secret.hex() in result.output for key in keys)


def test_show_explains_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert "no key file" in refusal("show", tmp_path / "absent")
