"""Training: the training loop, loss, optimizer, learning rate, checkpoints and distributed training."""
