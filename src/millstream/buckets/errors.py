"""What can go wrong with buckets, beside what goes wrong between us and the server (`link.errors`).

BucketError
├── BadBucket       a name that no bucket has, or a stream that is no bucket
├── BadKey          a key or object name that cannot be used
├── NoSuchBucket
├── NoSuchObject    the object is not there, or is a link that leads nowhere
├── KeyChanged      the key has another revision than was expected
└── DigestMismatch  an object's bytes are not those that were stored
"""

from millstream.base.errors import MillstreamError


class BucketError(MillstreamError):
    """The root of what this package raises."""


class BadBucket(BucketError):
    """A name that no bucket can have, or a configuration that makes no bucket."""


class BadKey(BucketError):
    """A key, a pattern or an object name that cannot be used."""


class NoSuchBucket(BucketError):
    """There is no bucket of that name."""


class NoSuchObject(BucketError):
    """There is no such object."""


class KeyChanged(BucketError):
    """The key is not at the revision that the caller expected."""


class DigestMismatch(BucketError):
    """Chunks of an object are missing or were altered."""
