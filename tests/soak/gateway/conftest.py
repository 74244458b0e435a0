"""The fixtures of these tests."""

from tests.kits.fixtures.gateway import *
