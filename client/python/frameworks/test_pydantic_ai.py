"""pydantic-ai's conformance suite for workspaces on the adapter, native and with commands only."""

import tempfile

import pytest
from pydantic_ai.workspaces.conformance import WorkspaceBackendSuite
from settings import APPROVER, PROFILE, place

from palisade.adapters.pydantic_ai import PalisadeWorkspace


@pytest.fixture
def anyio_backend():
    return "asyncio"


class CommandsOnly:
    """The same backend without its file methods: files then go through the shell."""

    def __init__(self, whole):
        self._whole = whole
        self.working_dir = whole.working_dir
        self.run = whole.run

    @property
    def ref(self):
        return self._whole.ref


class Suite(WorkspaceBackendSuite):
    @pytest.fixture(autouse=True)
    def expected(self, request):
        if request.node.originalname == "test_cancellation_stops_foreground_work":
            # It waits for a file of a running command. Effects are seen when they are committed.
            request.applymarker(pytest.mark.xfail(strict=True))

    @pytest.fixture
    def has_real_posix_shell(self):
        return True

    @pytest.fixture
    async def whole(self):
        with place(), tempfile.TemporaryDirectory() as workspace:
            backend = PalisadeWorkspace(workspace, PROFILE, approver=APPROVER)
            try:
                yield backend
            finally:
                await backend.close()


class TestNative(Suite):
    @pytest.fixture
    async def backend(self, whole):
        return whole


class TestCommandsOnly(Suite):
    @pytest.fixture
    async def backend(self, whole):
        return CommandsOnly(whole)
