"""What a run says about itself while it works: the log."""
