"""Limits of the protocol, as PROTOCOL.md lists them."""

VERSION = 1
MAX_FRAME = 16 * 1024 * 1024
MAX_CHUNK = 256 * 1024
MAX_CALLS_IN_FLIGHT = 64
MAX_ID = 2**53 - 1
