"""The list of what is inside the binary, as CycloneDX 1.5: the crates that are compiled into it, from cargo itself.

Crates that only build scripts and tests use are left out. SQLite is in the crate `libsqlite3-sys`.
"""

from __future__ import annotations

import json
import subprocess
import tomllib
import uuid
from datetime import UTC, datetime
from pathlib import Path

NAMESPACE = uuid.UUID("5ab1a7b4-7b0c-4f3c-9c8e-6f0a4b1d2c3e")
PACKAGE = "tenure"


def write(out: Path, root: Path, triple: str, time: str) -> Path:
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", triple]
    told = json.loads(subprocess.run(command, check=True, capture_output=True, text=True, cwd=root).stdout)
    made = document(told, checksums(root / "Cargo.lock"), int(time))
    path = out / f"tenure-{made['metadata']['component']['version']}-{triple}.cdx.json"
    path.write_text(json.dumps(made, indent=1) + "\n")
    return path


def checksums(lock: Path) -> dict[tuple[str, str], str]:
    packages = tomllib.loads(lock.read_text())["package"]
    return {(one["name"], one["version"]): one["checksum"] for one in packages if "checksum" in one}


def document(told: dict, sums: dict[tuple[str, str], str], time: int) -> dict:
    packages = {one["id"]: one for one in told["packages"]}
    nodes = {node["id"]: node for node in told["resolve"]["nodes"]}
    top = next(
        one["id"] for one in packages.values() if one["name"] == PACKAGE and one["id"] in told["workspace_members"]
    )
    needs = linked(top, nodes)
    component = described(packages[top], sums)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(NAMESPACE, json.dumps(sorted(needs)))}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": component | {"type": "application"},
        },
        "components": [described(packages[one], sums) for one in sorted(needs) if one != top],
        "dependencies": [
            {"ref": reference(packages[one]), "dependsOn": sorted(reference(packages[below]) for below in needs[one])}
            for one in sorted(needs)
        ],
    }


def linked(top: str, nodes: dict[str, dict]) -> dict[str, list[str]]:
    """Each package that is compiled into the program, with what it needs."""
    needs: dict[str, list[str]] = {}
    waiting = [top]
    while waiting:
        one = waiting.pop()
        if one in needs:
            continue
        ordinary = [
            below["pkg"] for below in nodes[one]["deps"] if any(kind["kind"] is None for kind in below["dep_kinds"])
        ]
        needs[one] = ordinary
        waiting += ordinary
    return needs


def reference(package: dict) -> str:
    return f"pkg:cargo/{package['name']}@{package['version']}"


def described(package: dict, sums: dict[tuple[str, str], str]) -> dict:
    made = {
        "type": "library",
        "bom-ref": reference(package),
        "name": package["name"],
        "version": package["version"],
        "purl": reference(package),
    }
    if package.get("license"):
        # The old spelling of an alternative is no SPDX expression.
        made["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    checksum = sums.get((package["name"], package["version"]))
    if checksum:
        made["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    return made
