"""Convert the table ``[nats]`` to options of the data source; secrets come from files and the environment.

    [nats]  >  environment  >  NATS context  >  defaults

The environment is handed in: only the command reads the real one.  What a secret is never enters a text.
"""

from collections.abc import Mapping

from millstream.base.errors import MillstreamError
from millstream.link.errors import BadLinkOptions
from millstream.link.login import load_credentials
from millstream.link.options import LinkOptions, replace_values
from millstream.link.sections import section_layer
from millstream.link.sources import environment_layer, link_options, spark_options
from millstream.spark.jobs.settings import Nats


class ConnectionSettingsError(MillstreamError):
    """``[nats]`` and the environment do not describe a connection."""


def connection_options(nats: Nats, environment: Mapping[str, str]) -> dict[str, str] | None:
    """Return the options `nats.*` of the data source; None if neither file nor environment says where."""
    try:
        layers = (section_layer(nats, environment), environment_layer(environment))
        if not any(layer.values.keys() & {"servers", "context"} for layer in layers):
            return None
        return spark_options(_embedded(link_options(*layers, environment=environment)))
    except BadLinkOptions as error:
        raise ConnectionSettingsError(f"[nats] {error}") from None


def _embedded(options: LinkOptions) -> LinkOptions:
    """Return the options with the seed in place of its file: executors may not have the file.

    Credentials that cannot be read are found here, before anything starts.
    """
    credentials = load_credentials(options, options.servers[0])
    if not options.nkey_file:
        return options
    return replace_values(options, {"nkey_file": "", "nkey_seed": credentials.seed})
