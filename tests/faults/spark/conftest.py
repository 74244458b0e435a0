"""The fixtures of these tests."""

from tests.kits.fixtures.spark_deaths import *
