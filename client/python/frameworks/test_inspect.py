"""Inspect's own conformance suite on the adapter."""

import contextlib

import pytest
from inspect_ai.util import SandboxUserUnsupportedError
from inspect_ai.util._sandbox.self_check import *  # noqa: F403
from settings import APPROVER, PROFILE, place

import palisade
from palisade.adapters.inspect import PalisadeSandboxEnvironment


@pytest.fixture(scope="module")
def anyio_backend():
    return "asyncio"


@pytest.fixture(scope="module")
async def sandbox():
    approved = contextlib.nullcontext() if APPROVER is None else palisade.approve_with(APPROVER)
    with place(), approved:
        environments = await PalisadeSandboxEnvironment.sample_init("task", PROFILE, {})
        try:
            yield environments["default"]
        finally:
            await PalisadeSandboxEnvironment.sample_cleanup("task", PROFILE, environments, False)


@pytest.fixture
async def sandbox_env(sandbox, request):
    if request.node.originalname == "test_exec_as_user":
        # A session has one user, and no root in it.
        request.applymarker(pytest.mark.xfail(raises=SandboxUserUnsupportedError, strict=True))
    return sandbox


pytestmark = pytest.mark.anyio
