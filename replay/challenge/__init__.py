"""What an untrusted variant is confronted with: which outputs are poisoned, and other inputs with the captured kernels'
outputs for them."""
