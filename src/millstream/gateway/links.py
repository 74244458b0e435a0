"""The links of one gateway: its own, and a pool of those with callers' credentials."""

from __future__ import annotations

import asyncio
from typing import Final

from millstream.gateway.admission import Admission
from millstream.gateway.bounds import Alarm
from millstream.gateway.credentials import Credentials
from millstream.gateway.errors import Overloaded, Unauthorized
from millstream.gateway.link import CallerLink
from millstream.gateway.settings import Nats
from millstream.link.errors import AuthorizationViolation
from millstream.link.login import check_files

_LONGEST_NAP_S: Final = 5.0


class Links:
    """The links; `own` exists from the start, others are opened for callers that pass credentials."""

    def __init__(self, options: Nats) -> None:
        self._options = options
        self.own = CallerLink(options)
        check_files(self.own.options)  # unusable files are reported at the start, not to every caller
        self._pool: dict[str, CallerLink] = {}
        self._opening: dict[str, asyncio.Task[CallerLink]] = {}
        self._sweeper: asyncio.Task[None] | None = None
        self._admission = Admission(options.link.request_timeout_s)
        self._full = Alarm(f"{options.pooled_links} credentials are in use; see nats.pooled_links")

    def __len__(self) -> int:
        return 1 + len(self._pool)

    def start(self) -> None:
        """Connect in the background; `own.is_up` becomes true when the connection is open."""
        self.own.connect_in_background()
        self._sweeper = asyncio.get_running_loop().create_task(self._sweep())

    async def close(self) -> None:
        tasks = [*self._opening.values()]
        if self._sweeper is not None:
            tasks.append(self._sweeper)  # type: ignore[arg-type]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for link in [self.own, *self._pool.values()]:
            await link.close()
        self._pool.clear()

    def knows(self, credentials: Credentials) -> bool:
        """Return whether NATS has accepted these credentials recently."""
        link = self._pool.get(credentials.digest)
        return link is not None and not link.is_closed

    async def link_for(self, credentials: Credentials | None, address: str = "") -> CallerLink:
        """Return the link of these credentials, or the gateway's own; raises Unauthorized on a rejection.

        `address` is the caller's.  Credentials that NATS has not accepted yet cost others nothing: they wait
        for a place, and no link is closed for them.
        """
        if credentials is None:
            return self.own
        digest = credentials.digest
        link = self._pool.get(digest)
        if link is not None and not link.is_closed:
            link.last_used = asyncio.get_running_loop().time()
            return link
        task = self._opening.get(digest)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._open(digest, credentials, address))
            self._opening[digest] = task
            task.add_done_callback(lambda _: self._opening.pop(digest, None))
        return await asyncio.shield(task)

    async def _open(self, digest: str, credentials: Credentials, address: str) -> CallerLink:
        link = CallerLink(self._options, credentials)
        async with self._admission.place(digest, address):
            try:
                await link.connect()
            except AuthorizationViolation:
                self._admission.forget(digest)
                # without the address of NATS
                raise Unauthorized("NATS rejected the credentials") from None
        self._admission.learn(digest)
        try:
            await self._make_room()
        except BaseException:
            await link.close()
            raise
        self._pool[digest] = link
        return link

    async def _make_room(self) -> None:
        """Close the link that was idle for longest, if the pool is full."""
        most = self._options.pooled_links
        while most and len(self._pool) >= most:
            idle = [key for key, link in self._pool.items() if not link.is_held]
            if not idle:
                self._full.ring()
                raise Overloaded("too many different credentials are in use")
            await self._drop(min(idle, key=lambda key: self._pool[key].last_used))

    async def _drop(self, digest: str) -> None:
        link = self._pool.pop(digest, None)
        if link is not None:
            await link.close()

    async def _sweep(self) -> None:
        idle_s = self._options.pooled_link_idle_s
        while True:
            await asyncio.sleep(min(idle_s / 4 or _LONGEST_NAP_S, _LONGEST_NAP_S))
            now = asyncio.get_running_loop().time()
            for digest, link in list(self._pool.items()):
                if link.is_closed or (idle_s and not link.is_held and now - link.last_used > idle_s):
                    await self._drop(digest)
