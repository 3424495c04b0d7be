"""Puts the built programs into the wheel, and gives it the tag of the platform they are for.

`../build-wheels` sets the two variables.
"""

import os
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PROGRAMS = (
    "palisade",
    "palisade-analyst",
    "palisade-cell",
    "palisade-egress",
    "palisade-launcher",
    "palisade-mcp",
    "palisaded",
)


class Programs(BuildHookInterface[Any]):
    """Adds the programs of `$PALISADE_PROGRAMS`."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        built = Path(os.environ["PALISADE_PROGRAMS"])
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{os.environ['PALISADE_PLATFORM']}"
        for name in PROGRAMS:
            build_data["force_include"][str(built / name)] = f"palisade_bin/bin/{name}"
        licenses = "THIRD-PARTY-LICENSES"
        build_data["force_include"][str(built / licenses)] = f"palisade_bin/{licenses}"
