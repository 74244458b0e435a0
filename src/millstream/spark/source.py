"""`format("jetstream")`: the class that Spark looks for."""

from collections.abc import MutableMapping

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from millstream.spark.option_table import Use, check_names
from millstream.spark.options import BUCKET, SinkOptions, SourceOptions, shape_of, value_of
from millstream.spark.shapes import offered_shape


class JetStreamDataSource(DataSource):
    """Streams of a NATS server as tables: read, streamed and written.

    After ``pip install "millstream[spark]"`` Spark finds it by itself.  Where it does not, say once
    ``spark.dataSource.register(JetStreamDataSource)``.

    >>> stream = {"nats.servers": servers, "subscribe": "ORDERS"}
    >>> orders = spark.read.format("jetstream").options(**stream).load()
    >>> orders.selectExpr("seq", "subject", "cast(data as string) as data").orderBy("seq").show()
    +---+----------+-----+
    |seq|   subject| data|
    +---+----------+-----+
    |  1|orders.new|apple|
    |  2|orders.new| pear|
    |  3|orders.old| plum|
    +---+----------+-----+
    <BLANKLINE>

    What is not needed is not moved: without the column ``data`` payloads stay on the server.

    >>> spark.read.format("jetstream").options(**stream).schema("subject string").load().distinct().count()
    2

    A streaming query goes on where it stopped, and each message is in one of its batches, once:

    >>> orders = spark.readStream.format("jetstream").options(**stream, startingOffsets="earliest").load()
    >>> loud = orders.selectExpr("subject", "upper(cast(data as string)) as data")
    >>> query = (
    ...     loud.writeStream.format("jetstream")
    ...     .options(**{"nats.servers": servers, "subject": "copies.all", "checkpointLocation": checkpoint})
    ...     .trigger(availableNow=True)
    ...     .start()
    ... )
    >>> query.awaitTermination()
    >>> copies = spark.read.format("jetstream").options(**(stream | {"subscribe": "COPIES"})).load()
    >>> sorted(bytes(row.data) for row in copies.collect())
    [b'APPLE', b'PEAR', b'PLUM']

    A name that means nothing is an error, not ignored:

    >>> spark.read.format("jetstream").option("nats.server", servers).load()
    Traceback (most recent call last):
    ...
    pyspark.errors.exceptions.captured.AnalysisException: ... did you mean 'nats.servers'? ...

    All options are in ``docs/spark.md``.
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        check_names(options)

    @classmethod
    def name(cls) -> str:
        return "jetstream"

    def schema(self) -> StructType | str:
        return offered_shape(shape_of(self.options), value_of(self.options)).schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        options = SourceOptions.parse(dict(self.options), Use.BATCH)
        offered_shape(options.shape, options.value).check(schema)
        if options.shape == BUCKET:
            from millstream.spark.bucket import BucketReader

            return BucketReader(options, schema)
        if options.push_down_filters:
            from millstream.spark.pushdown import PushdownReader

            return PushdownReader(options, schema)
        from millstream.spark.batch import BatchReader

        return BatchReader(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from millstream.spark.stream import StreamReader

        options = SourceOptions.parse(dict(self.options), Use.STREAM)
        offered_shape(options.shape, options.value).check(schema)
        return StreamReader(options, schema)

    # Spark calls these with keyword arguments, so the parameter names are part of the contract.

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from millstream.spark.sink import batch_writer

        return batch_writer(SinkOptions.parse(dict(self.options)), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from millstream.spark.sink import stream_writer

        return stream_writer(SinkOptions.parse(dict(self.options)), schema, overwrite)
