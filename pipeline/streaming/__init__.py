"""The micro-batch: from a source's raw frame to tables that show it (`batch.micro_batch`)."""
