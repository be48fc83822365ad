"""What a snapshot asks of a device, its driver and its images, compared with what is there."""
