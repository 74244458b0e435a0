"""Subjects of all streams in one tree answer as a comparison with each of them."""

from __future__ import annotations

from random import Random

import pytest

from millstream.jetstream.config.registry import StreamConfigs
from millstream.jetstream.config.subjects import check_overlap
from millstream.jsapi.errors import ApiError
from millstream.jsapi.stream_types import StreamConfig

TOKENS = ("a", "b", "c", "*")


def subject(random: Random) -> str:
    tokens = random.choices(TOKENS, k=random.randint(1, 3))
    return ".".join(tokens) if random.random() < 0.7 else ".".join([*tokens, ">"])


def refused(config: StreamConfig, streams: StreamConfigs | dict[str, StreamConfig]) -> bool:
    try:
        check_overlap(config, streams)
    except ApiError:
        return True
    return False


@pytest.mark.parametrize("seed", range(20))
def test_a_new_stream_is_refused_as_if_each_was_looked_at(seed: int) -> None:
    random = Random(seed)
    configs, naive = StreamConfigs(), dict[str, StreamConfig]()
    for number in range(200):
        name = f"S{random.randint(0, 15)}"
        config = StreamConfig(name=name, subjects=[subject(random)])
        assert refused(config, configs) == refused(config, naive), number
        if random.random() < 0.4 and name in naive:
            configs.discard(name)
            del naive[name]
        elif random.random() < 0.3:
            configs.put(config)
            naive[name] = config
        assert dict(configs) == naive


def test_a_configuration_takes_the_place_of_the_one_before() -> None:
    configs = StreamConfigs()
    configs.put(StreamConfig(name="S", subjects=["a"]))
    configs.put(StreamConfig(name="S", subjects=["b"]))
    assert not configs.others_listen_to("T", ["a"])
    assert configs.others_listen_to("T", ["x", "*"])
    assert not configs.others_listen_to("S", ["x", "*"])
    configs.discard("S")
    configs.discard("S")
    assert not configs.others_listen_to("T", [">"])
