"""Write the model of this example, and its recorded input and output: python make_model.py"""

import coremltools as ct
import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
network = nn.Sequential(
    nn.Conv2d(3, 16, 3, stride=2, padding=1),
    nn.GELU(),
    nn.Conv2d(16, 16, 3, padding=1),
    nn.GELU(),
    nn.AdaptiveAvgPool2d(1),
    nn.Flatten(),
    nn.Linear(16, 10),
).eval()
image = torch.randn(1, 3, 32, 32)
package = ct.convert(
    torch.jit.trace(network, image),
    inputs=[ct.TensorType("image", shape=image.shape)],
    outputs=[ct.TensorType("scores")],
    minimum_deployment_target=ct.target.iOS17,
    skip_model_load=True,
)
package.save("Model.mlpackage")
np.savez("recorded.npz", image=image.numpy(), scores=network(image).detach().numpy())
