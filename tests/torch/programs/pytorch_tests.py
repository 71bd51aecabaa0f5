"""Runs tests of PyTorch's own suite of torch.distributed, as its processes do: `barriers`."""

import os
import sys
import tempfile
import types
import unittest
from contextlib import suppress

os.environ.update(BACKEND="gloo", TEMP_DIR=tempfile.gettempdir())
sys.modules.setdefault("expecttest", types.SimpleNamespace(TestCase=unittest.TestCase))  # torch does not install it

from torch.testing._internal.common_utils import TestCase  # noqa: E402
from torch.testing._internal.distributed.distributed_test import DistributedTest  # noqa: E402


class Case(DistributedTest._DistTestBase, TestCase):
    """A test without the processes that PyTorch starts, and without its barrier between tests, which uses files."""

    rank = property(lambda self: int(os.environ["RANK"]))

    def _barrier(self, *args, **more):
        pass

    def runTest(self):  # noqa: N802
        pass


def barriers(rank, size):
    """Times that are compared after a barrier."""
    case = Case()
    for name in ("test_barrier", "test_barrier_group", "test_barrier_full_group"):
        with suppress(SystemExit):  # PyTorch skips a test that needs more ranks
            getattr(case, name)()
