"""Many files through one model, in as many processes as there are: shard in, shard out, and none of them twice."""
