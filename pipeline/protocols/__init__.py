"""One package per protocol: raw frame in, change frame and control messages out."""
