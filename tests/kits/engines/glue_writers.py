"""Fill a table of a Glue catalog from two threads at once, read it, and print what is in it as JSON.

The catalog is moto's server of AWS' interfaces, on loopback; it runs in a process of its own.
"""

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import requests

from millstream.lake.catalog import CatalogSettings, open_catalog
from millstream.lake.errors import LakeError
from millstream.lake.table import LakeTable
from tests.kits.lake import FORM, add, sequences
from tests.kits.patience import PATIENCE_S
from tests.kits.ports import free_ports

TABLE = "plant.readings"


def main(folder: str, batches: str) -> None:
    [port, nobody] = free_ports(2)
    command = [sys.executable, "-m", "moto.server", "--host", "127.0.0.1", "--port", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait_for(f"http://127.0.0.1:{port}/moto-api/")
        print(json.dumps(_fill(_settings(folder, port), int(batches)) | _away(_settings(folder, nobody))))
    finally:
        server.terminate()
        server.wait()


def _settings(folder: str, port: int) -> CatalogSettings:
    properties = {
        "glue.endpoint": f"http://127.0.0.1:{port}",
        "glue.region": "eu-central-1",
        "glue.access-key-id": "nobody",
        "glue.secret-access-key": "nothing",
    }
    return CatalogSettings(name="aws", type="glue", warehouse=Path(folder).as_uri(), properties=properties)


def _fill(settings: CatalogSettings, batches: int) -> dict[str, object]:
    LakeTable.ensure(open_catalog(settings, create=True), TABLE, FORM)

    def write(query: str) -> None:
        table = LakeTable.open(open_catalog(settings), TABLE)
        for batch in range(batches):
            add(table, batch, query=query, stream=query)
            add(table, batch, query=query, stream=query)  # a repeated batch adds nothing

    writers = [threading.Thread(target=write, args=(query,)) for query in ("one", "two")]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    table = LakeTable.open(open_catalog(settings), TABLE)
    progress = {query: at.batch for query, at in table.progress().items()}
    return {"sequences": sequences(table), "batches": progress}


def _away(settings: CatalogSettings) -> dict[str, object]:
    try:
        LakeTable.open(open_catalog(settings), TABLE)
    except LakeError as error:
        return {"error": type(error).__name__, "text": str(error)}
    return {}


def _wait_for(address: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            requests.get(address, timeout=5)
            return
        except requests.RequestException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


if __name__ == "__main__":
    main(*sys.argv[1:])
