"""Prints the directory of the programs."""

from pathlib import Path

print(Path(__file__).parent / "bin")
