import base64
import re
import subprocess
import sys
import threading

from millstream.base.ids import NuidGenerator, nonce, nuid, short_hash

BASE_62 = re.compile(r"[0-9A-Za-z]{22}")


def test_a_nuid_has_22_base_62_characters() -> None:
    assert BASE_62.fullmatch(nuid())


def test_nuids_do_not_repeat() -> None:
    assert len({nuid() for _ in range(10_000)}) == 10_000


def test_nuids_of_one_generator_share_a_prefix_and_two_generators_do_not() -> None:
    one, other = NuidGenerator(), NuidGenerator()
    assert one.next()[:12] == one.next()[:12]
    assert one.next()[:12] != other.next()[:12]


def test_a_used_up_counter_brings_a_new_prefix() -> None:
    generator = NuidGenerator()
    before = generator.next()
    generator._counter = 62**10 - 1
    after = generator.next()
    assert before[:12] != after[:12]
    assert BASE_62.fullmatch(after)


def test_nuids_stay_unique_across_threads() -> None:
    generator = NuidGenerator()
    seen: list[str] = []

    def draw() -> None:
        seen.extend([generator.next() for _ in range(2_000)])

    threads = [threading.Thread(target=draw) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(seen)) == 8_000


FORK = """
import os
from millstream.base.ids import nuid
child = os.fork()
if child:
    os.waitpid(child, 0)
print(nuid(), flush=True)
"""


def test_a_forked_process_draws_other_nuids_than_its_parent() -> None:
    done = subprocess.run([sys.executable, "-c", FORK], check=True, capture_output=True, text=True)
    theirs, ours = done.stdout.split()
    assert theirs[:12] != ours[:12]


def test_a_nonce_is_eleven_bytes_of_unpadded_base64url() -> None:
    text = nonce()
    assert len(text) == 15
    assert len(base64.urlsafe_b64decode(text + "=")) == 11


def test_nonces_differ() -> None:
    assert len({nonce() for _ in range(1_000)}) == 1_000


def test_a_hash_is_that_of_nats_server() -> None:
    assert short_hash("$G") == "szMpdrwD"
