"""Whether this machine is fit for capture, replay and honest timing, and the cure of everything that is not."""
