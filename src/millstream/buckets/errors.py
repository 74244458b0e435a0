"""The errors of buckets; errors of the connection are in `link.errors`.

BucketError
├── BadBucket       an invalid name of a bucket, or a stream that is no bucket
├── BadKey          an invalid key or object name
├── NoSuchBucket
├── NoSuchObject    the object does not exist, or is a link to none
├── KeyChanged      the key has another revision than expected
└── DigestMismatch  an object's bytes differ from what was stored
"""

from millstream.base.errors import MillstreamError


class BucketError(MillstreamError):
    """The base of all errors of this package."""


class BadBucket(BucketError):
    """The name or configuration of a bucket is invalid."""


class BadKey(BucketError):
    """A key, a pattern or an object name is invalid."""


class NoSuchBucket(BucketError):
    """The bucket does not exist."""


class NoSuchObject(BucketError):
    """The object does not exist."""


class KeyChanged(BucketError):
    """The key is not at the revision that the caller expected."""


class DigestMismatch(BucketError):
    """Chunks of an object are missing or were altered."""
