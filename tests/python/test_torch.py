"""torch.compile(backend="lathe"): the answers are PyTorch's, and what no engine serves says so and runs in PyTorch."""

import logging
import threading
import unittest

import lathe
import lathe.torch  # noqa: F401, makes the backend known where the package is not installed
import numpy as np
import torch
from torch import nn


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(3, 8, 3)
        self.norm = nn.BatchNorm2d(8)
        self.dropout = nn.Dropout(0.5)
        self.classes = nn.Linear(8, 5)

    def forward(self, x, scale=1.0):
        return self.classes(self.dropout(self.norm(self.convolution(x)).relu().mean((2, 3)))) * scale


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 4, batch_first=True)

    def forward(self, x):
        return self.attention(x, x, x)[0]


class InTwoParts(nn.Module):
    """Python looks at a value in the middle, where Dynamo breaks the graph."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4)

    def forward(self, x):
        y = self.first(x)
        return self.second(y) if float(y.sum()) < 1e9 else y


class Several(nn.Module):
    """Several inputs, outputs of several kinds: one twice, the input itself, a number, one of integers."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(10, 4)

    def forward(self, indices, values):
        rows = self.table(indices) + values
        return {"rows": rows, "again": rows, "input": values, "number": 3, "best": rows.argmax(-1), "none": None}


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(3))

    def forward(self, x):
        self.calls.add_(1)
        return x + self.calls


class OnlySingularValues(nn.Module):
    def forward(self, x):
        return torch.linalg.svdvals(x) * 2


class View(nn.Module):
    def forward(self, x):
        return x.view(-1), x * 2


def compiled(module, **options):
    torch._dynamo.reset()
    return torch.compile(module.eval(), backend="lathe", **options)


class Compile(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)

    def assert_same(self, found, wanted):
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)

    def served(self, module, *inputs, **options):
        """The compiled module, which an engine serves and which gives what the module gives."""
        fast = compiled(module, **options)
        with self.assertNoLogs("lathe", logging.WARNING), torch.no_grad():
            self.assert_same(fast(*inputs), module(*inputs))
        return fast

    def falls_back(self, why, call):
        with self.assertLogs("lathe", logging.WARNING) as logs:
            found = call()
        self.assertEqual(len(logs.records), 1, logs.output)
        self.assertIn("runs in PyTorch", logs.output[0])
        self.assertIn(why, logs.output[0])
        return found

    def test_is_known_by_name(self):
        self.assertIn("lathe", torch._dynamo.list_backends())

    def test_sizes_that_change(self):
        module = Small()
        fast = self.served(module, torch.randn(1, 3, 16, 16))
        # The second size makes Dynamo's sizes symbols; the third is in the engine's range, the fourth is not; then
        # height and width change too, and last to what is hardly larger than the filter.
        with self.assertNoLogs("lathe", logging.WARNING), torch.no_grad():
            for shape in ((2, 3, 16, 16), (5, 3, 16, 16), (20, 3, 16, 16), (2, 3, 12, 14), (2, 3, 14, 12), (2, 3, 4, 4)):
                x = torch.randn(shape)
                self.assert_same(fast(x), module(x))

    def test_dynamic_from_the_start(self):
        module = Attention()
        fast = self.served(module, torch.randn(2, 5, 16), dynamic=True)
        with self.assertNoLogs("lathe", logging.WARNING), torch.no_grad():
            for shape in ((3, 7, 16), (4, 10, 16)):
                x = torch.randn(shape)
                self.assert_same(fast(x), module(x))

    def test_inputs_of_any_layout(self):
        module = Small()
        fast = self.served(module, torch.randn(2, 3, 16, 16).transpose(2, 3))
        with torch.inference_mode():
            x = torch.randn(2, 3, 16, 16).contiguous(memory_format=torch.channels_last)
            self.assert_same(fast(x), module(x))

    def test_weights_that_change(self):
        module = Small()
        x = torch.randn(2, 3, 16, 16)
        fast = self.served(module, x)
        before = module(x).detach()
        with torch.no_grad():
            module.classes.weight.mul_(2)
            self.assert_same(fast(x), module(x))
            self.assertFalse(torch.allclose(fast(x), before))
            module.load_state_dict(Small().state_dict())
            self.assert_same(fast(x), module(x))
            module.classes.weight = nn.Parameter(torch.ones(5, 8))
            self.assert_same(fast(x), module(x))

    def test_modules_of_one_class_keep_their_weights(self):
        modules = [Small().eval(), Small().eval()]
        torch._dynamo.reset()
        fast = [torch.compile(module, backend="lathe") for module in modules]
        x = torch.randn(2, 3, 16, 16)
        with torch.no_grad(), self.assertNoLogs("lathe", logging.WARNING):
            for _ in range(2):
                for one, module in zip(fast, modules):
                    self.assert_same(one(x), module(x))

    def test_graph_breaks(self):
        self.served(InTwoParts(), torch.randn(2, 4))

    def test_outputs_of_every_kind(self):
        self.served(Several(), torch.randint(10, (2, 3)), torch.randn(2, 3, 4))

    def test_numbers_among_the_inputs(self):
        module = Small()
        fast = self.served(module, torch.randn(2, 3, 16, 16), 2.0)
        with torch.no_grad(), self.assertNoLogs("lathe", logging.WARNING):
            for scale in (3.0, 4.5):
                x = torch.randn(2, 3, 16, 16)
                self.assert_same(fast(x, scale), module(x, scale))

    def test_threads(self):
        module = Small()
        fast = self.served(module, torch.randn(2, 3, 16, 16))
        inputs = [torch.randn(2, 3, 16, 16) for _ in range(4)]
        found = [None] * 4

        def work(place):
            with torch.no_grad():
                for _ in range(10):
                    found[place] = fast(inputs[place])

        threads = [threading.Thread(target=work, args=(place,)) for place in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with torch.no_grad():
            for one, x in zip(found, inputs):
                self.assert_same(one, module(x))

    def test_gradients_stay_pytorchs(self):
        module = Small()
        fast = compiled(module)
        x = torch.randn(2, 3, 16, 16)
        self.falls_back("torch.no_grad()", lambda: fast(x).sum().backward())
        self.assertIsNotNone(module.classes.weight.grad)
        # Without gradients the same module is served.
        with torch.no_grad(), self.assertNoLogs("lathe", logging.WARNING):
            self.assert_same(fast(x), module(x))

    def test_training_stays_pytorchs(self):
        module = Small()
        fast = compiled(module)
        module.train()
        x = torch.randn(4, 3, 16, 16)
        with torch.no_grad():
            self.falls_back("eval()", lambda: fast(x))
        self.assertEqual(int(module.norm.num_batches_tracked), 1)

    def test_dropout_stays_pytorchs(self):
        module = nn.Sequential(nn.Linear(4, 64), nn.Dropout(0.5))
        fast = compiled(module)
        module.train()
        with torch.no_grad():
            self.falls_back("random", lambda: fast(torch.ones(2, 4)))
            self.assertFalse(torch.equal(fast(torch.ones(2, 4)), fast(torch.ones(2, 4))))

    def test_writes_to_buffers_happen_once(self):
        fast = compiled(Counting())
        with torch.no_grad():
            found = self.falls_back("writes", lambda: fast(torch.zeros(3)))
            self.assert_same(found, torch.ones(3))
            self.assert_same(fast(torch.zeros(3)), torch.full((3,), 2.0))

    def test_what_onnx_lacks_stays_pytorchs(self):
        x = torch.randn(4, 4)
        fast = compiled(OnlySingularValues())
        with torch.no_grad():
            found = self.falls_back("svd", lambda: fast(x))
            self.assert_same(found, OnlySingularValues()(x))
            with self.assertNoLogs("lathe", logging.WARNING):
                fast(x)

    def test_views_of_inputs_stay_views(self):
        x = torch.zeros(2, 2)
        fast = compiled(View())
        with torch.no_grad():
            found, _ = self.falls_back("view", lambda: fast(x))
        found.fill_(1)
        self.assert_same(x, torch.ones(2, 2))

    def test_bfloat16_results_stay_pytorchs(self):
        fast = compiled(Small())
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
            found = self.falls_back("bfloat16", lambda: fast(torch.randn(2, 3, 16, 16)))
        self.assertEqual(found.dtype, torch.bfloat16)

    def test_empty_batches_stay_pytorchs(self):
        fast = compiled(nn.Linear(4, 3))
        with torch.no_grad(), self.assertLogs("lathe", logging.WARNING):
            self.assertEqual(fast(torch.zeros(0, 4)).shape, (0, 3))

    def test_options(self):
        self.served(Small(), torch.randn(2, 3, 16, 16), options={"threads": 1})
        with self.assertRaises(Exception) as caught:
            compiled(Small(), options={"speed": 2})(torch.zeros(2, 3, 16, 16))
        self.assertIn('no option "speed"', str(caught.exception))
        self.assertIn("precision, threads", str(caught.exception))
        with torch.no_grad():
            self.falls_back("fp7", lambda: compiled(Small(), options={"precision": "fp7"})(torch.zeros(2, 3, 16, 16)))


class Networks(unittest.TestCase):
    """Families of torchvision's networks with seeded weights; benchmarks/torch_compile.py measures the whole list."""

    def test_torchvision(self):
        try:
            import torchvision
        except ImportError as error:
            self.skipTest(f"SKIPPED: {error}")
        for name, size in (("resnet18", 64), ("mobilenet_v3_small", 64), ("shufflenet_v2_x0_5", 64), ("squeezenet1_1", 64),
                           ("efficientnet_b0", 64), ("regnet_y_400mf", 64), ("vit_b_16", 224)):
            with self.subTest(name=name):
                torch.manual_seed(0)
                module = torchvision.models.get_model(name, weights=None).eval()
                x = torch.randn(2, 3, size, size)
                fast = compiled(module)
                with torch.no_grad(), self.assertNoLogs("lathe", logging.WARNING):
                    found, wanted = fast(x), module(x)
                self.assertLess((found - wanted).abs().max(), 1e-4 * max(1.0, wanted.abs().max()))


class FromTorch(unittest.TestCase):
    def test_gives_an_engine(self):
        torch.manual_seed(0)
        module = Small().train()
        engine = lathe.from_torch(module, torch.zeros(1, 3, 16, 16), name="small")
        self.assertTrue(module.training)
        self.assertEqual(engine.metadata["name"], "small")
        x = torch.randn(3, 3, 16, 16)
        with torch.no_grad():
            wanted = module.eval()(x).numpy()
        np.testing.assert_allclose(engine.session().run(x), wanted, rtol=1e-4, atol=1e-5)

    def test_refuses_what_is_no_module(self):
        for module, example in ((3, torch.zeros(1)), (Small(), None), (OnlySingularValues(), torch.eye(3))):
            with self.assertRaises(lathe.Error):
                lathe.from_torch(module, example)


if __name__ == "__main__":
    unittest.main()
