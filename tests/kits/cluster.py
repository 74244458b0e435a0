"""Three nats-servers that are one cluster with JetStream, on loopback."""

from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Final, Self

from tests.kits.ports import free_ports
from tests.kits.reference import ServerKind, ServerProcess

_SIZE: Final = 3


class Cluster:
    """Use it with ``with``; `servers` may be killed and started again one by one."""

    def __init__(self, domain: str = "") -> None:
        """Prepare the servers; `domain` is that of their JetStream."""
        # Each must know where the others will be, and a dead one finds its own ports free when it comes back.
        ports = free_ports(3 * _SIZE)
        client_ports, route_ports = ports[:_SIZE], ports[_SIZE : 2 * _SIZE]
        self.leaf_ports = ports[2 * _SIZE :]  # where each accepts leaf nodes
        named = f", domain: {domain}" if domain else ""
        routes = ", ".join(f"nats-route://127.0.0.1:{port}" for port in route_ports)
        self.servers = [
            ServerProcess(
                ServerKind.NATS_SERVER,
                jetstream=True,
                port=client_port,
                config=(
                    f"server_name: n{number}\n"
                    f"jetstream: {{max_mem: 64MB, max_file: 256MB{named}}}\n"
                    f'leafnodes: {{listen: "127.0.0.1:{leaf_port}"}}\n'
                    f'cluster: {{name: lab, listen: "127.0.0.1:{route_port}", routes: [{routes}]}}\n'
                ),
            )
            for number, (client_port, route_port, leaf_port) in enumerate(
                zip(client_ports, route_ports, self.leaf_ports, strict=True)
            )
        ]

    def named(self, name: str) -> ServerProcess:
        return self.servers[int(name.removeprefix("n"))]

    @property
    def urls(self) -> list[str]:
        return [server.client_url for server in self.servers]

    def __enter__(self) -> Self:
        try:
            with ThreadPoolExecutor(_SIZE) as pool:
                list(pool.map(ServerProcess.start, self.servers))
        except BaseException:
            self.close()
            raise
        return self

    def start_the_dead(self) -> None:
        for server in self.servers:
            if not server.running:
                server.start()

    def close(self) -> None:
        for server in self.servers:
            if server.running:
                server.kill()  # an orderly end would first move the leaders about
            server.close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
