"""Files and processes: durable writes, hashing, locks, streams, process pools, progress."""
