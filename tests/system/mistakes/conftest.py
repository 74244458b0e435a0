"""The site that all mistakes are made on."""

from collections.abc import Iterator

import pytest

from tests.kits.mistakes.site import Site, open_site


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory, _nursery: None) -> Iterator[Site]:
    with open_site(tmp_path_factory.mktemp("mistakes")) as made:
        yield made
