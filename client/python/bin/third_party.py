"""Prints the licences of the crates that are compiled into the programs, as their licences ask for.

`../build-wheels` puts the text into the wheel. Crates that only run while compiling are left out.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

TOP = Path(__file__).resolve().parents[3]
#: The beginnings of the names that licence texts and notices have.
NAMES = ("licen", "copying", "notice", "unlicense", "copyright")


def compiled_in(metadata: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the crates of others that the programs of the workspace need when they run."""
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    members = [packages[one] for one in metadata["workspace_members"]]
    waiting = [member["id"] for member in members if is_program(member)]
    found: set[str] = set()
    while waiting:
        one = waiting.pop()
        is_macro = any("proc-macro" in target["kind"] for target in packages[one]["targets"])
        if one in found or is_macro:
            continue
        found.add(one)
        for needed in nodes[one]["deps"]:
            if any(kind["kind"] is None for kind in needed["dep_kinds"]):
                waiting.append(needed["pkg"])
    others = found - set(metadata["workspace_members"])
    return sorted((packages[one] for one in others), key=lambda one: (one["name"], one["version"]))


def is_program(package: dict[str, Any]) -> bool:
    """Returns whether a crate is one of the programs."""
    names = [target["name"] for target in package["targets"] if "bin" in target["kind"]]
    return any(name.startswith("palisade") for name in names)


def texts(package: dict[str, Any]) -> list[str]:
    """Returns the licence texts that a crate comes with."""
    directory = Path(package["manifest_path"]).parent
    files = [path for path in directory.iterdir() if path.name.lower().startswith(NAMES)]
    parts = [path for one in files for path in (sorted(one.rglob("*")) if one.is_dir() else [one])]
    return [path.read_text(errors="replace").strip() for path in sorted(parts) if path.is_file()]


def main() -> None:
    command = ["cargo", "metadata", "--format-version=1", "--locked"]
    target = subprocess.check_output(["rustc", "-vV"], text=True).split("host: ")[1].split()[0]
    command += ["--filter-platform", target]
    packages = compiled_in(json.loads(subprocess.check_output(command, cwd=TOP)))
    users: dict[str, list[str]] = {}
    print("The programs of Palisade contain these crates:\n")
    for package in packages:
        name = f"{package['name']} {package['version']}"
        if not package["license"]:
            sys.exit(f"{name} does not name its licence")
        authors = f", by {', '.join(package['authors'])}" if package["authors"] else ""
        print(f"- {name}: {package['license']}{authors}")
        for text in texts(package):
            users.setdefault(text, []).append(name)
    for text, names in sorted(users.items(), key=lambda one: one[1]):
        print(f"\n{'=' * 80}\n{', '.join(names)}\n{'=' * 80}\n\n{text}")


if __name__ == "__main__":
    main()
