"""Where raw frames come from: Kafka now, object storage later."""
