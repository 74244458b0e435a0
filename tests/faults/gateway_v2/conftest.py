"""The fixtures of these tests."""

from tests.kits.fixtures.gateway_v2 import *
