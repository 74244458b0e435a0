"""Open an Iceberg catalog: SQLite in the warehouse folder by default, or any catalog of PyIceberg's.

PyIceberg's own configuration (`~/.pyiceberg.yaml`, `PYICEBERG_CATALOG__<NAME>__<KEY>`) counts for what the
settings leave out, which is the place for secrets.
"""

import contextlib
import logging
import sys
import time
import tomllib
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Final

from millstream.base.reasons import file_reason
from millstream.lake.errors import LakeError, LakeMissing, LakeUnavailable, TableMissing

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

CATALOG_FILE: Final = "catalog.db"
SECRET_KEYS: Final = ("token", "credential", "secret", "password", "session-token", "account-key")
_DURABLE: Final = "millstream.lake.durable_io.DurableFileIO"
_SQLITE: Final = b"SQLite format 3\0"  # what a database begins with; a new one is empty
_DRIVER_ERRORS: Final = {
    "sqlalchemy.exc": ("OperationalError",),
    "botocore.exceptions": ("ConnectionError", "HTTPClientError"),
    "thrift.transport.TTransport": ("TTransportException",),
}
_BUSY_CODES: Final = ("OperationTimeoutException", "ThrottlingException")
_TRIES: Final = 5  # two processes that create a new catalog at once: one of them fails
_TRY_PAUSE_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class CatalogSettings:
    """The address and the properties of a catalog; `properties` are PyIceberg's."""

    name: str = "lake"
    warehouse: str = ""
    type: str = ""
    uri: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_default(self) -> bool:
        """Return True for the catalog in the file `catalog.db` of the warehouse folder."""
        return bool(self.warehouse) and not self.type and not self.uri and "://" not in self.warehouse

    @property
    def file(self) -> Path:
        """Return the SQLite file of a default catalog."""
        return Path(self.warehouse).absolute() / CATALOG_FILE

    def resolved(self) -> dict[str, str]:
        """Return the properties for PyIceberg."""
        if self.is_default:
            folder = Path(self.warehouse).absolute()
            return {
                **self.properties,
                "py-io-impl": _DURABLE,
                "type": "sql",
                "uri": f"sqlite:///{self.file}",
                "warehouse": f"file://{folder}",
            }
        given = {"type": self.type, "uri": self.uri, "warehouse": self.warehouse}
        return {**self.properties, **{key: value for key, value in given.items() if value}}


def catalog_at(place: str | Path | CatalogSettings) -> CatalogSettings:
    """Return the settings of the catalog at a place: a warehouse folder, or a TOML file with `[catalog]`."""
    if isinstance(place, CatalogSettings):
        return place
    path = Path(place)
    if path.suffix != ".toml":
        return CatalogSettings(warehouse=str(place))
    try:
        section = tomllib.loads(path.read_text()).get("catalog", {})
    except OSError as error:
        raise LakeError(f"cannot read {path}: {file_reason(error)}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise LakeError(f"{path} is no TOML: {error}") from None
    known = {one.name for one in fields(CatalogSettings)}
    if not isinstance(section, dict) or not section or not known >= section.keys():
        raise LakeError(f"{path} needs a section [catalog] with {', '.join(sorted(known))}")
    return CatalogSettings(**section)


def open_catalog(settings: CatalogSettings, *, create: bool = False) -> "Catalog":
    """Return the catalog; with `create`, a default catalog that does not exist yet is created."""
    with explained(settings.name):
        try:
            import pyiceberg.catalog  # noqa: F401 - the other imports need it
        except ImportError:
            raise LakeMissing("Iceberg needs PyIceberg: pip install 'millstream[lake]'") from None
        # PyIceberg warns of each column without statistics, and those are chosen by us.
        logging.getLogger("pyiceberg.io.pyarrow").setLevel(logging.ERROR)
        if settings.is_default:
            if create:
                settings.file.parent.mkdir(parents=True, exist_ok=True)
            elif not settings.file.exists():
                raise LakeError(f"there is no catalog {settings.file}; archive something to make it")
            _check_database(settings)
        for _ in range(_TRIES - 1):
            try:
                return _load(settings)
            except Exception as error:
                if not settings.is_default or "already exists" not in str(error):
                    raise
                time.sleep(_TRY_PAUSE_S)
        return _load(settings)


def _check_database(settings: CatalogSettings) -> None:
    """Refuse a file that is no database: PyIceberg would leave it open when it fails."""
    if settings.file.exists():
        with settings.file.open("rb") as file:
            if file.read(len(_SQLITE)) not in (_SQLITE, b""):
                raise LakeError(f"catalog {settings.name}: {settings.file}: this file is not a database")


def _load(settings: CatalogSettings) -> "Catalog":
    """Load a catalog with PyIceberg; REST catalogs get timeouts."""
    from pyiceberg.catalog import load_catalog
    from pyiceberg.utils.config import Config

    given = settings.resolved()
    whole = {**(Config().get_catalog_config(settings.name) or {}), **given}
    kind = whole.get("type") or ("rest" if str(whole.get("uri", "")).startswith("http") else "")
    if kind == "rest" and "py-catalog-impl" not in given:
        from millstream.lake.rest_catalog import PatientRestCatalog

        return PatientRestCatalog(settings.name, **{key: str(value) for key, value in whole.items()})
    catalog = load_catalog(settings.name, **given)
    engine = getattr(catalog, "engine", None)
    if engine is not None:  # of a database: a catalog that nobody closes closes it when it is collected
        weakref.finalize(catalog, engine.dispose)
    return catalog


@contextlib.contextmanager
def explained(name: str, table: str = "") -> Iterator[None]:
    """Turn errors of PyIceberg and of its drivers into one sentence that names the catalog, or the table."""
    try:
        yield
    except LakeError:
        raise
    except Exception as error:
        raise explain(error, name, table) from error


def explain(error: Exception, name: str, table: str = "") -> LakeError:
    """Return the error of a catalog, or of loading a table from it, as ours."""
    text = _first_line(error)
    kind = type(error).__name__
    if kind == "ValidationError" and table:  # pydantic says what it is missing in some class
        return LakeError(f"table {table} cannot be read: its metadata are damaged, or are no table's")
    if kind in ("NoSuchTableError", "NoSuchNamespaceError", "NoSuchIcebergTableError"):
        return TableMissing(f"catalog {name}: {text}")
    if kind in ("UnauthorizedError", "ForbiddenError", "OAuthError"):
        return LakeError(f"catalog {name} refuses: {text}")
    if kind in ("NotInstalledError", "ModuleNotFoundError"):
        return LakeMissing(f"catalog {name}: {text}")
    if may_pass(error):
        return LakeUnavailable(f"catalog {name} does not answer: {text}")
    return LakeError(f"catalog {name}: {text}")


def may_pass(error: BaseException) -> bool:
    """Return True if the error says nothing about the table, so that a retry may help.

    The outcome of a commit that ended with such an error is unknown.
    """
    from pyiceberg import exceptions
    from requests import RequestException

    passing: tuple[type[BaseException], ...] = (
        exceptions.CommitStateUnknownException,
        exceptions.ServerError,
        exceptions.ServiceUnavailableError,
        exceptions.TooManyRequestsError,
        exceptions.WaitingForLockException,
        RequestException,
        ConnectionError,
        TimeoutError,
        *_loaded_errors(),
    )
    return isinstance(error, passing) or _is_passing_answer(error)


def _loaded_errors() -> Iterator[type[BaseException]]:
    """Yield the errors by which drivers of catalogs report a lost connection, of drivers that are loaded."""
    for module, names in _DRIVER_ERRORS.items():
        loaded = sys.modules.get(module)
        yield from (getattr(loaded, name) for name in names if loaded is not None)


def _is_passing_answer(error: BaseException) -> bool:
    """Return True for an answer of AWS' that tells the client to come back later."""
    response = getattr(error, "response", None)
    if not isinstance(response, dict):
        return False
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return status >= 500 or status == 429 or response.get("Error", {}).get("Code") in _BUSY_CODES


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0].strip().rstrip(".")
