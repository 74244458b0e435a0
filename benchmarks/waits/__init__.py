"""The operations that ``benchmarks.scale_waits`` runs while another client measures how long it waits."""
