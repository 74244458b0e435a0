"""An order desk on Millrace: one stream, three consumers, a gateway and a Spark pipeline."""
