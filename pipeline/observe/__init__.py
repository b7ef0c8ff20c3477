"""What a run says about itself while it works: `logs`, `metrics`, and `probe`, the health check by its metrics."""
