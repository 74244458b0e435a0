"""Shared code of `kv` and `obj`: a connection on which errors of buckets become exit codes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import TypeVar

import msgspec

from millstream.base.suggestions import did_you_mean
from millstream.buckets.errors import (
    BadBucket,
    BadKey,
    BucketError,
    KeyChanged,
    NoSuchBucket,
    NoSuchObject,
)
from millstream.cli.connection import connected
from millstream.cli.endings import CONFLICT, FAILED, NOT_FOUND, Ending, UsageError
from millstream.cli.output.readings import SECOND
from millstream.cli.settings import Changes, Setting
from millstream.client.errors import ClientError
from millstream.link.errors import LinkApiError, LinkError
from millstream.link.link import Link
from millstream.link.options import LinkOptions

Config = TypeVar("Config", bound=msgspec.Struct)


def bucket_config(kind: type[Config], bucket: str, changes: Changes, settings: Iterable[Setting]) -> Config:
    """Return the configuration of a new bucket; raises UsageError with the invalid flag."""
    values = {key: value / SECOND if key.endswith("_s") else value for key, value in changes.items()}
    try:
        return msgspec.convert({"bucket": bucket, **values}, kind)
    except msgspec.ValidationError as error:
        text, _, place = str(error).partition(" - at `$.")
        flag = next((each.flag for each in settings if each.field == place.rstrip("`")), "the bucket")
        raise UsageError(f"{flag}: {text[:1].lower()}{text[1:]}") from None


@asynccontextmanager
async def bucket_link(server: LinkOptions, name: str, prefix: str, bucket: str = "") -> AsyncIterator[Link]:
    """Yield a link; the error for a missing bucket suggests an existing one with `prefix`."""
    async with connected(server, name) as api:
        try:
            yield api.link
        except NoSuchBucket as error:
            hint = await _hint(api.link, prefix, bucket)
            raise Ending(f"{error}{hint}", NOT_FOUND) from None
        except NoSuchObject as error:
            raise Ending(str(error), NOT_FOUND) from None
        except KeyChanged as error:
            raise Ending(str(error), CONFLICT) from None
        except (BadBucket, BadKey) as error:
            raise UsageError(str(error)) from None
        except (BucketError, ClientError) as error:
            raise Ending(str(error), FAILED) from None


async def _hint(link: Link, prefix: str, bucket: str) -> str:
    try:
        names = (await link.api("STREAM.NAMES", {"offset": 0})).get("streams") or []
    except (LinkApiError, LinkError):
        return ""
    return did_you_mean(bucket, [each.removeprefix(prefix) for each in names if each.startswith(prefix)])
