"""The sources of connection options: flags, the environment, files, a NATS context, defaults.

    flags  >  environment  >  file of settings  >  NATS context  >  defaults

Commands use this order; a program may pass its layers in another one.  `sections` has the keys of files, and
`cli.connection` the flags.
"""

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

from millstream.base.durations import write_seconds
from millstream.link.contexts import load_context, selected_context
from millstream.link.fields import OptionKind
from millstream.link.layers import Layer, together
from millstream.link.options import FIELDS, LinkOptions, LinkTlsOptions, value_of


def environment_layer(environment: Mapping[str, str]) -> Layer:
    """Return the options given by environment variables."""
    layer = Layer()
    for each in FIELDS:
        if each.names.variable:
            layer.put(each, environment.get(each.names.variable, ""), each.names.variable)
    return layer


def spark_layer(given: Mapping[str, str]) -> Layer:
    """Return the connection options among a Spark data source's options; others are ignored."""
    layer = Layer()
    for each in FIELDS:
        if each.names.spark in given:
            layer.put(each, given[each.names.spark], f"option {each.names.spark}")
    return layer


def link_options(
    *layers: Layer,
    selected: bool = False,
    environment: Mapping[str, str] = os.environ,
    defaults: Mapping[str, Any] | None = None,
) -> LinkOptions:
    """Return the combined options of all layers, the strongest first; raises BadLinkOptions if they conflict.

    The context that they name is weaker than all of them; `defaults`, by field names, are weaker still.  With
    `selected`, the context that the `nats` tool has selected is used if no layer names a context or a server.
    `environment` locates contexts and resolves their references.
    """
    context = next((each.values["context"] for each in layers if "context" in each.values), "")
    if not context and selected and not any("servers" in each.values for each in layers):
        context = selected_context(environment)
    named = [load_context(context, environment)] if context else []
    return together([*layers, *named, Layer(dict(defaults or {}))])


def spark_options(options: LinkOptions) -> dict[str, str]:
    """Return equivalent options of Spark's data source; the options of a context are written out."""
    result: dict[str, str] = {}
    for each in FIELDS:
        value = value_of(options, each.path)
        if not each.names.spark or each.path == "context" or value in ("", None, False):
            continue
        if each.names.kind is OptionKind.SERVERS or value != each.default:
            result[each.names.spark] = _text(each.names.kind, value)
    if options.tls == LinkTlsOptions():  # Spark has no option for TLS without further options
        servers = [dataclasses.replace(server, tls=True) for server in options.servers]
        result["nats.servers"] = _text(OptionKind.SERVERS, servers)
    return result


def _text(kind: OptionKind, value: Any) -> str:
    match kind:
        case OptionKind.SERVERS:
            return ",".join(server.full_url for server in value)
        case OptionKind.SECONDS:
            return write_seconds(value)
        case OptionKind.SWITCH:
            return str(value).lower()
    return str(value)
