"""Which class an engine sees in pictures.

    python classify.py ENGINE PICTURE...
"""

import sys

import lathe
import numpy as np

engine = lathe.Engine.load(sys.argv[1])
names = engine.metadata["labels"]
images = lathe.load_images(sys.argv[2:], engine.metadata["preprocess"])
session = engine.session()
for path, image in zip(sys.argv[2:], images):
    logits = session.run(image[np.newaxis])[0]
    shares = np.exp(logits - logits.max())
    best = int(shares.argmax())
    print(f"{path}: {names[best] if names else best} ({100 * shares[best] / shares.sum():.1f} %)")
