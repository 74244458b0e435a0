"""An order desk on Millstream: one stream, three consumers, a gateway and a Spark pipeline."""
