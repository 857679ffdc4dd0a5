"""How the networks of zoo_networks.py are made: a module of seeded weights and the inputs of a batch size."""


from dataclasses import dataclass
from typing import Any, Callable

import torch
from torch import nn

SEED = 11


@dataclass
class Entry:
    """make: the module; inputs: (batch) -> tensors; batches: those that are timed; names: of the inputs in the graph."""

    make: Callable[[], nn.Module]
    inputs: Callable[[int], list[torch.Tensor]]
    batches: tuple[int, ...] = (1, 32)
    names: tuple[str, ...] = ("input",)
    axes: dict[str, dict[int, str]] | None = None  # default: axis 0 of every input and output is "batch"
    image: bool = True  # channels-last pays in PyTorch
    int8: bool = False  # also quantised, as explicit Q/DQ
    half_io: bool = False  # inputs and outputs in FP16, as PyTorch's are: a decoder's states
    family: str = "torchvision"


def pictures(size=224, channels=3):
    def make(batch):
        generator = torch.Generator().manual_seed(SEED + batch)
        return [torch.randn(batch, channels, size, size, generator=generator)]

    return make


def tokens(length, words):
    def make(batch):
        generator = torch.Generator().manual_seed(SEED + batch)
        return [torch.randint(5, words, (batch, length), generator=generator), torch.ones(batch, length, dtype=torch.int64)]

    return make


def settled(module, example):
    """Gives batch normalisations the mean and variance of a random batch."""
    norms = [m for m in module.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    if norms:
        momenta = [m.momentum for m in norms]
        for m in norms:
            m.momentum = None
            m.reset_running_stats()
        module.eval()
        for m in norms:
            m.train()
        with torch.no_grad():
            module(*example)
        for m, momentum in zip(norms, momenta):
            m.momentum = momentum
    return module.eval()


class First(nn.Module):
    """Of a module that gives a dictionary or an object, its tensors in order."""

    def __init__(self, module, pick):
        super().__init__()
        self.module, self.pick = module, pick

    def forward(self, *inputs):
        return self.pick(self.module(*inputs))


def torchvision_entry(name, size=224, batches=(1, 32), int8=False, **options):
    def make():
        import torchvision

        return torchvision.models.get_model(name, weights=None, **options)

    return Entry(make, pictures(size), batches, int8=int8)


def segmenter(name, size=512, batches=(1, 8)):
    def make():
        import torchvision

        module = torchvision.models.get_model(name, weights=None, weights_backbone=None, aux_loss=False, num_classes=21)
        return First(module, lambda result: result["out"])

    return Entry(make, pictures(size), batches)


class Heads(nn.Module):
    """A torchvision detector's backbone and heads, as exports for engines cut it: what follows is boxes, not products."""

    def __init__(self, detector):
        super().__init__()
        self.backbone, self.head = detector.backbone, detector.head

    def forward(self, x):
        features = list(self.backbone(x).values())
        return tuple(self.head(features).values())


def detector(name, size, batches=(1, 8), **options):
    def make():
        import torchvision

        return Heads(torchvision.models.get_model(name, weights=None, weights_backbone=None, **options))

    return Entry(make, pictures(size), batches)


def timm_entry(name, size=224, batches=(1, 32), int8=False):
    def make():
        import timm

        return timm.create_model(name, pretrained=False, exportable=True)

    return Entry(make, pictures(size), batches, int8=int8, family="timm")


def attending(model, config):
    """The model with PyTorch's own attention, where it takes that."""
    config._attn_implementation = "sdpa" if model._supports_sdpa else "eager"
    return model(config)


def encoder(kind, length, batches=(1, 32), **options):
    """A transformers encoder, exported plainly."""

    def make():
        import transformers

        config = getattr(transformers, f"{kind.removesuffix('Encoder')}Config")(**options)
        module = attending(getattr(transformers, f"{kind}Model"), config)
        return First(Named(module), lambda result: result.last_hidden_state)

    axes = {"input_ids": {0: "batch"}, "attention_mask": {0: "batch"}}
    return Entry(make, tokens(length, 30000), batches, ("input_ids", "attention_mask"), axes, image=False, family="transformers")


class Named(nn.Module):
    """Passes the inputs by name."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, input_ids, attention_mask):
        return self.module(input_ids=input_ids, attention_mask=attention_mask, return_dict=True)


def clip_text(batches=(1, 32)):
    def make():
        import transformers

        return First(Named(transformers.CLIPTextModel(transformers.CLIPTextConfig())), lambda result: result.last_hidden_state)

    return Entry(make, tokens(77, 40000), batches, ("input_ids", "attention_mask"), None, image=False, family="transformers")


class Prefill(nn.Module):
    """A causal language model on a whole prompt: the last position's logits."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, input_ids, attention_mask):
        return self.module(input_ids=input_ids, attention_mask=attention_mask, use_cache=False, logits_to_keep=1, return_dict=True).logits[:, 0]


class Decode(nn.Module):
    """One token behind a past of keys and values, which go in and out in the past's type, whatever the weights'."""

    def __init__(self, module, layers):
        super().__init__()
        self.module, self.layers = module, layers

    def forward(self, input_ids, *past):
        import transformers

        cache = transformers.DynamicCache()
        own, given = self.module.dtype, past[0].dtype
        for layer in range(self.layers):
            cache.update(past[2 * layer].to(own), past[2 * layer + 1].to(own), layer)
        result = self.module(input_ids=input_ids, past_key_values=cache, use_cache=True, return_dict=True)
        present = result.past_key_values
        out = [result.logits[:, -1]]
        for layer in range(self.layers):
            pair = present.layers[layer]
            out += [pair.keys.to(given), pair.values.to(given)]
        return tuple(out)


def gpt2_module(layers=12):
    import transformers

    return attending(transformers.GPT2LMHeadModel, transformers.GPT2Config(n_layer=layers))


def gpt2_prefill(length, batches=(1, 8)):
    return Entry(lambda: Prefill(gpt2_module()), tokens(length, 50000), batches, ("input_ids", "attention_mask"), None, image=False,
                 family="transformers")


def gpt2_decode(past, batches=(1, 8), layers=12):
    def inputs(batch):
        generator = torch.Generator().manual_seed(SEED + batch)
        ids = torch.randint(5, 50000, (batch, 1), generator=generator)
        return [ids] + [torch.randn(batch, 12, past, 64, generator=generator) for _ in range(2 * layers)]

    names = ("input_ids", *(f"past.{i}.{part}" for i in range(layers) for part in ("key", "value")))
    return Entry(lambda: Decode(gpt2_module(layers), layers), inputs, batches, names, None, image=False, half_io=True,
                 family="transformers")


def llama_prefill(length, batches=(1, 4)):
    def make():
        import transformers

        config = transformers.LlamaConfig(vocab_size=32000, hidden_size=2048, intermediate_size=5632, num_hidden_layers=22,
                                          num_attention_heads=32, num_key_value_heads=4)
        return Prefill(attending(transformers.LlamaForCausalLM, config))

    return Entry(make, tokens(length, 31000), batches, ("input_ids", "attention_mask"), None, image=False, family="transformers")


def unet(batches=(2,)):
    """Stable Diffusion 1.5's."""

    def make():
        import diffusers

        module = diffusers.UNet2DConditionModel(sample_size=64, cross_attention_dim=768, attention_head_dim=8)
        return First(module, lambda result: result.sample)

    def inputs(batch):
        generator = torch.Generator().manual_seed(SEED + batch)
        return [torch.randn(batch, 4, 64, 64, generator=generator), torch.full((batch,), 500.0),
                torch.randn(batch, 77, 768, generator=generator)]

    return Entry(make, inputs, batches, ("sample", "timestep", "encoder_hidden_states"), None, family="diffusers")


def vae_decoder(batches=(1,)):
    def make():
        import diffusers

        blocks = 4
        module = diffusers.AutoencoderKL(down_block_types=("DownEncoderBlock2D",) * blocks, up_block_types=("UpDecoderBlock2D",) * blocks,
                                         block_out_channels=(128, 256, 512, 512), layers_per_block=2, latent_channels=4)
        return nn.Sequential(module.post_quant_conv, module.decoder)

    return Entry(make, lambda batch: [torch.randn(batch, 4, 64, 64, generator=torch.Generator().manual_seed(SEED))], batches,
                 family="diffusers")


def transformers_model(kind, inputs, pick, batches, names=("input",), image=False, **options):
    """A model of transformers that takes its inputs in order."""

    def make():
        import transformers

        config = getattr(transformers, kind.removesuffix("Model").split("For")[0].removesuffix("Encoder") + "Config")(**options)
        return First(attending(getattr(transformers, kind), config), pick)

    return Entry(make, inputs, batches, names, image=image, family="transformers")


def waves(length):
    def make(batch):
        return [torch.randn(batch, length, generator=torch.Generator().manual_seed(SEED + batch))]

    return make


def rt_detr(batches=(1, 8)):
    """Detector with deformable attention (GridSample) and the best 300 of its queries (TopK)."""

    def make():
        import transformers

        backbone = transformers.RTDetrResNetConfig(embedding_size=64, hidden_sizes=[64, 128, 256, 512], depths=[2, 2, 2, 2],
                                                   layer_type="basic", out_features=["stage2", "stage3", "stage4"])
        config = transformers.RTDetrConfig(backbone_config=backbone, encoder_in_channels=[128, 256, 512], decoder_layers=3,
                                           hidden_expansion=0.5)
        return First(transformers.RTDetrForObjectDetection(config), lambda result: (result.logits, result.pred_boxes))

    return Entry(make, pictures(640), batches, family="transformers")


def causal(kind, length, batches=(1, 4), **options):
    """A causal language model of transformers on a whole prompt."""

    def make():
        import transformers

        config = getattr(transformers, f"{kind}Config" if kind != "Gemma3" else "Gemma3TextConfig")(**options)
        return Prefill(attending(getattr(transformers, f"{kind}ForCausalLM"), config))

    return Entry(make, tokens(length, 30000), batches, ("input_ids", "attention_mask"), None, image=False, family="transformers")


class Translate(nn.Module):
    """Encoder and decoder at once: the logits of a target that is given."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, input_ids, decoder_input_ids):
        return self.module(input_ids=input_ids, decoder_input_ids=decoder_input_ids, use_cache=False, return_dict=True).logits


def translator(kind, source, target, batches=(1, 8), **options):
    def make():
        import transformers

        config = getattr(transformers, f"{kind}Config")(**options)
        model = getattr(transformers, f"{kind}ForConditionalGeneration" if kind != "Marian" else "MarianMTModel")
        return Translate(attending(model, config))

    def inputs(batch):
        generator = torch.Generator().manual_seed(SEED + batch)
        return [torch.randint(5, 30000, (batch, length), generator=generator) for length in (source, target)]

    return Entry(make, inputs, batches, ("input_ids", "decoder_input_ids"), None, image=False, family="transformers")


def video(name, size=112, batches=(1, 8)):
    def make():
        import torchvision

        return getattr(torchvision.models.video, name)(weights=None)

    def inputs(batch):
        return [torch.randn(batch, 3, 16, size, size, generator=torch.Generator().manual_seed(SEED + batch))]

    return Entry(make, inputs, batches, image=False)
