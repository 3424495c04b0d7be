"""The standard tests of LangChain for deepagents' sandboxes, on the adapter."""

import tempfile

import pytest
from langchain_tests.integration_tests import SandboxIntegrationTests
from settings import APPROVER, PROFILE, place

import palisade
from palisade.adapters.deepagents import PalisadeSandbox


class TestPalisade(SandboxIntegrationTests):
    @pytest.fixture(scope="class")
    def sandbox(self):
        options = {"private": True, "approver": APPROVER}
        with (
            place(),
            tempfile.TemporaryDirectory() as workspace,
            palisade.session(workspace, PROFILE, **options) as session,
        ):
            yield PalisadeSandbox(session)
