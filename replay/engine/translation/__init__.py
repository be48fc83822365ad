"""What captured values mean in this process: addresses, handles, contexts, words in memory, tensor maps."""
