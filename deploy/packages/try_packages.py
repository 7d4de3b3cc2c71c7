"""Installs each package into an empty place and runs the three commands of the README with it.

    try_packages.py PACKAGES

PACKAGES is a folder that `build.py` and `cargo xtask dist` have filled.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Long for a quiet machine; the test machine is not quiet.
PATIENCE = 60
SECTION = "## Three commands, no code"


def three_commands() -> list[list[str]]:
    """The commands as the README prints them, each without its program."""
    readme = (ROOT / "README.md").read_text().split(SECTION, 1)[1].split("\n## ", 1)[0]
    commands = prompted(readme)
    assert [command[0] for command in commands] == ["dev", "work", "submit"], commands
    assert prompted((ROOT / "docs/start/first-run.md").read_text()) == commands, "the page for the first run has others"
    return commands


def prompted(text: str) -> list[list[str]]:
    return [shlex.split(line)[1:] for line in re.findall(r"^\$ (tenure .*)$", text, re.MULTILINE)]


def first_run(program: list[str], home: Path) -> None:
    """A server, a worker and a run. Another port than the README's, which may be taken."""
    dev, work, submit = three_commands()
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("TENURE_", "XDG_"))}
    environment |= {"HOME": str(home), "NO_COLOR": "1"}
    with contextlib.ExitStack() as running:
        server = running.enter_context(started([*program, *dev, "--port", "0"], environment))
        told(server, "Tenure is ready at http://127.0.0.1:")
        worker = running.enter_context(started([*program, *work], environment))
        told(worker, "cat works on demo with cat")
        ran = subprocess.run([*program, *submit], env=environment, capture_output=True, text=True, timeout=PATIENCE)
        assert ran.returncode == 0, ran.stderr
        assert json.loads(ran.stdout) == {"n": 1}, ran.stdout


@contextlib.contextmanager
def started(command: list[str], environment: dict[str, str]) -> Iterator[subprocess.Popen]:
    process = subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if Path(command[0]).name == "npx":
            # `npx` passes no signal on. It is used in a terminal, where Ctrl-C reaches the whole group.
            os.killpg(process.pid, signal.SIGINT)
        else:
            # What a supervisor sends to the process that it has started: a launcher must pass it on.
            process.terminate()
        process.communicate(timeout=PATIENCE)


def told(process: subprocess.Popen, text: str) -> None:
    lines = []
    for line in process.stdout:
        lines.append(line)
        if text in line:
            return
    raise AssertionError(f"{process.args} ended without “{text}”:\n{''.join(lines)}")


def the(packages: Path, pattern: str) -> Path:
    (found,) = packages.glob(pattern)
    return found


def try_wheel(packages: Path, empty: Path) -> list[list[str]]:
    subprocess.run([sys.executable, "-m", "venv", empty / "venv"], check=True)
    python = empty / "venv/bin/python"
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index"]
    subprocess.run([*install, the(packages, "tenure_server-*.whl")], check=True)
    return [[str(empty / "venv/bin/tenure")], [str(python), "-m", "tenure_server"]]


def try_npm(packages: Path, empty: Path) -> list[list[str]]:
    (empty / "package.json").write_text('{"private": true}\n')
    tarballs = [the(packages, "tenure-server-[0-9]*.tgz"), the(packages, "tenure-server-linux-*.tgz")]
    # The package of the other machine is in no registry yet, and npm goes on without an optional one.
    install = ["npm", "install", "--no-audit", "--no-fund", "--loglevel=error", "--fetch-retries=0"]
    subprocess.run([*install, *tarballs], check=True, cwd=empty, stdout=subprocess.DEVNULL)
    npx = shutil.which("npx")
    assert npx is not None
    return [[npx, "--no", "--prefix", str(empty), "tenure-server"], [str(empty / "node_modules/.bin/tenure")]]


def try_debian(packages: Path, empty: Path) -> list[list[str]]:
    subprocess.run(["dpkg-deb", "--extract", the(packages, "tenure_*.deb"), empty], check=True)
    for place in ["etc/tenure/tenure.toml", "usr/lib/systemd/system/tenure.service", "usr/share/man/man1/tenure.1.gz"]:
        assert (empty / place).is_file(), place
    return [[str(empty / "usr/bin/tenure")]]


def try_install_text(packages: Path, empty: Path) -> list[list[str]]:
    environment = {**os.environ, "TENURE_BASE_URL": packages.resolve().as_uri(), "TENURE_PREFIX": str(empty)}
    subprocess.run(["sh", packages / "install.sh"], check=True, env=environment, stdout=subprocess.DEVNULL)
    return [[str(empty / "bin/tenure")]]


def try_changed_archive(packages: Path, empty: Path) -> None:
    """A byte more, and nothing is installed."""
    archive = the(packages, "tenure-*-unknown-*.tar.gz")
    shutil.copy(packages / "SHA256SUMS", empty)
    (empty / archive.name).write_bytes(archive.read_bytes() + b"\n")
    environment = {**os.environ, "TENURE_BASE_URL": empty.resolve().as_uri(), "TENURE_PREFIX": str(empty / "prefix")}
    ran = subprocess.run(["sh", packages / "install.sh"], env=environment, capture_output=True, text=True)
    assert ran.returncode != 0, ran.stdout
    assert "checksum" in ran.stderr, ran.stderr
    assert not (empty / "prefix").exists()


def check_bill_of_materials(packages: Path) -> None:
    made = json.loads(the(packages, "*.cdx.json").read_text())
    names = {one["name"] for one in made["components"]}
    assert {"libsqlite3-sys", "rustls", "tokio"} <= names, names
    known = {one["bom-ref"] for one in [made["metadata"]["component"], *made["components"]]}
    assert {below for one in made["dependencies"] for below in [one["ref"], *one["dependsOn"]]} == known


def check_archive(packages: Path) -> None:
    path = the(packages, "tenure-*-unknown-*.tar.gz")
    name = path.name.removesuffix(".tar.gz")
    with tarfile.open(path) as archive:
        modes = {entry.name.removeprefix(f"{name}/"): entry.mode for entry in archive.getmembers()}
        zsh = archive.extractfile(f"{name}/completions/_tenure").read()
    texts = {place for place in modes if not place.startswith(("man/", "docs/"))}
    assert texts == {
        *("CHANGELOG.md", "LICENSE", "LICENSE-APACHE", "LICENSE-MIT", "README.md"),
        *("completions/_tenure", "completions/tenure.bash", "completions/tenure.fish"),
        *("tenure", "tenure.json", "tenure.service", "tenure.toml"),
    }, texts
    assert {"man/man1/tenure.1", "man/man1/tenure-runs-show.1"} <= set(modes)
    assert [place for place, mode in modes.items() if mode & 0o111] == ["tenure"]
    assert zsh.startswith(b"#compdef tenure")


def check_sums(packages: Path) -> None:
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], check=True, cwd=packages)
    named = {line.split("  ")[1] for line in (packages / "SHA256SUMS").read_text().splitlines()}
    assert named == {path.name for path in packages.iterdir()} - {"SHA256SUMS"}, named


def main() -> None:
    packages = Path(sys.argv[1]).resolve()
    check_sums(packages)
    check_archive(packages)
    check_bill_of_materials(packages)
    ways: dict[str, Callable[[Path, Path], list[list[str]]]] = {
        "wheel": try_wheel,
        "npm": try_npm,
        "Debian package": try_debian,
        "install.sh": try_install_text,
    }
    if shutil.which("dpkg-deb") is None:
        print("left out: the Debian package, because dpkg-deb is not installed")
        del ways["Debian package"]
    for name, install in ways.items():
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            for place, program in enumerate(install(packages, Path(folder))):
                home = Path(folder) / f"home-{place}"
                home.mkdir()
                first_run(program, home)
        print(f"{name}: installed, and the three commands ran ({time.monotonic() - began:.1f} s)")
    with tempfile.TemporaryDirectory() as folder:
        try_changed_archive(packages, Path(folder))
    print("install.sh: an archive that was changed is refused")


if __name__ == "__main__":
    main()
