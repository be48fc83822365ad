# needs: torch
# capture: --kernel gemm|nvjet|cutlass --launch 2
"""cuBLAS: half-precision matrix products, from images of hundreds of megabytes."""

import torch

torch.manual_seed(1)
a = torch.randn(512, 768, device="cuda", dtype=torch.bfloat16)
b = torch.randn(768, 640, device="cuda", dtype=torch.bfloat16)
products = [a @ b for _ in range(3)]
assert torch.equal(products[0], products[2])
assert torch.allclose(products[0].float(), a.float() @ b.float(), rtol=3e-2, atol=3e-1)
