"""The networks of zoo.py: seeded random weights, exported to ONNX as their users export them.

A network is a module and the inputs of one batch size. Weights are random, but activations stay near one: batch
normalisations take the statistics of a random batch, so that what FP16 loses is told apart from what explodes.
Networks that need a package which is not there (timm, transformers, diffusers) are left out with that reason.
"""

import copy
from typing import Any

import torch
from torch import nn

from gpu.zoo_entries import (SEED, Decode, Entry, First, causal, clip_text, detector, encoder, gpt2_decode, gpt2_prefill, llama_prefill,
                             pictures, rt_detr, segmenter, settled, timm_entry, torchvision_entry, transformers_model, translator, unet,
                             vae_decoder, video, waves)
from gpu.zoo_further import FURTHER
from gpu.zoo_modules import AnchorFree, Enlarger, FocusDetector, Segmenter, Stylist, TextReader

ZOO = {
    "resnet18": torchvision_entry("resnet18", int8=True),
    "resnet50": torchvision_entry("resnet50", int8=True),
    "mobilenet_v2": torchvision_entry("mobilenet_v2", int8=True),
    "mobilenet_v3_large": torchvision_entry("mobilenet_v3_large", int8=True),
    "efficientnet_b0": torchvision_entry("efficientnet_b0", int8=True),
    "efficientnet_v2_s": torchvision_entry("efficientnet_v2_s", int8=True),
    "regnet_y_1_6gf": torchvision_entry("regnet_y_1_6gf", int8=True),
    "resnext50_32x4d": torchvision_entry("resnext50_32x4d", int8=True),
    "googlenet": torchvision_entry("googlenet", int8=True, aux_logits=False, init_weights=False),
    "inception_v3": torchvision_entry("inception_v3", 299, int8=True, aux_logits=False, init_weights=False),
    "shufflenet_v2_x1_0": torchvision_entry("shufflenet_v2_x1_0", int8=True),
    "squeezenet1_1": torchvision_entry("squeezenet1_1", int8=True),
    "mnasnet1_0": torchvision_entry("mnasnet1_0", int8=True),
    "densenet121": torchvision_entry("densenet121", int8=True),
    "vgg16": torchvision_entry("vgg16", int8=True),
    "alexnet": torchvision_entry("alexnet", int8=True),
    "convnext_tiny": torchvision_entry("convnext_tiny", int8=True),
    "vit_b_16": torchvision_entry("vit_b_16"),
    "vit_b_32": torchvision_entry("vit_b_32"),
    "swin_t": torchvision_entry("swin_t"),
    "maxvit_t": torchvision_entry("maxvit_t", batches=(1, 16)),
    "deeplabv3_resnet50": segmenter("deeplabv3_resnet50"),
    "fcn_resnet50": segmenter("fcn_resnet50"),
    "lraspp_mobilenet_v3_large": Entry(
        lambda: First(__import__("torchvision").models.get_model("lraspp_mobilenet_v3_large", weights=None, weights_backbone=None),
                      lambda result: result["out"]), pictures(512), (1, 8)),
    "ssdlite320": detector("ssdlite320_mobilenet_v3_large", 320, (1, 32)),
    "retinanet_resnet50_fpn": detector("retinanet_resnet50_fpn", 512, (1, 8)),
    "deit_small": timm_entry("deit_small_patch16_224"),
    "mixer_b16": timm_entry("mixer_b16_224"),
    "efficientnet_lite0": timm_entry("efficientnet_lite0", int8=True),
    "mobilevit_s": timm_entry("mobilevit_s", 256),
    "repvgg_b0": timm_entry("repvgg_b0", int8=True),
    "ghostnet_100": timm_entry("ghostnet_100", int8=True),
    "res2net50": timm_entry("res2net50_26w_4s", int8=True),
    "resnest50d": timm_entry("resnest50d", int8=True),
    "poolformer_s12": timm_entry("poolformer_s12"),
    "edgenext_small": timm_entry("edgenext_small", 256),
    "eva02_tiny": timm_entry("eva02_tiny_patch14_224"),
    "levit_128s": timm_entry("levit_128s"),
    "efficientvit_m1": timm_entry("efficientvit_m1"),
    "efficientvit_b0": timm_entry("efficientvit_b0"),
    "efficientformerv2_s0": timm_entry("efficientformerv2_s0"),
    "convnextv2_atto": timm_entry("convnextv2_atto"),
    "inception_next_tiny": timm_entry("inception_next_tiny"),
    "mobilevitv2_050": timm_entry("mobilevitv2_050", 256),
    "mobileone_s0": timm_entry("mobileone_s0", int8=True),
    "pvt_v2_b0": timm_entry("pvt_v2_b0"),
    "davit_tiny": timm_entry("davit_tiny"),
    "coat_lite_tiny": timm_entry("coat_lite_tiny"),
    "focalnet_tiny": timm_entry("focalnet_tiny_srf"),
    "rexnet_100": timm_entry("rexnet_100"),
    "swinv2_tiny": timm_entry("swinv2_tiny_window8_256", 256),
    "cait_xxs24": timm_entry("cait_xxs24_224"),
    "mambaout_femto": timm_entry("mambaout_femto"),
    "nfnet_l0": timm_entry("nfnet_l0"),
    "samvit_base": timm_entry("samvit_base_patch16", 1024, (1, 2)),
    "dla34": timm_entry("dla34", int8=True),
    "mobilenetv4_small": timm_entry("mobilenetv4_conv_small", int8=True),
    "fastvit_t8": timm_entry("fastvit_t8", 256),
    "tiny_vit_5m": timm_entry("tiny_vit_5m_224"),
    "twins_svt_small": timm_entry("twins_svt_small"),
    "xcit_nano": timm_entry("xcit_nano_12_p16_224"),
    "hiera_tiny": timm_entry("hiera_tiny_224"),
    "yolov8n_like": Entry(AnchorFree, pictures(640), (1, 8), int8=True, family="own"),
    "yolox_s_like": Entry(FocusDetector, pictures(640), (1, 8), int8=True, family="own"),
    "unet": Entry(Segmenter, pictures(256), (1, 16), int8=True, family="own"),
    "esrgan": Entry(Enlarger, pictures(128), (1, 4), family="own"),
    "r3d_18": video("r3d_18"),
    "mvit_v2_s": video("mvit_v2_s", 224, (1, 4)),
    "resnetv2_50": timm_entry("resnetv2_50"),
    "hrnet_w18_small": timm_entry("hrnet_w18_small", int8=True),
    "distilbert": encoder("DistilBert", 128),
    "bert_base": encoder("Bert", 128),
    "bert_large": encoder("Bert", 384, hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096),
    "roberta_base": encoder("Roberta", 128, vocab_size=50265, max_position_embeddings=514),
    "clip_text": clip_text(),
    "gpt2_prefill_512": gpt2_prefill(512),
    "gpt2_decode_512": gpt2_decode(512),
    "llama_1b_prefill_256": llama_prefill(256),
    "rt_detr_r18": rt_detr(),
    "crnn_bilstm": Entry(TextReader, lambda batch: [torch.randn(batch, 1, 32, 320, generator=torch.Generator().manual_seed(SEED))],
                         family="own"),
    "style_transfer": Entry(Stylist, pictures(256), (1, 8), family="own"),
    "segformer_b0": transformers_model("SegformerForSemanticSegmentation", pictures(512), lambda result: result.logits, (1, 8),
                                       image=True),
    "wav2vec2_base": transformers_model("Wav2Vec2Model", waves(32000), lambda result: result.last_hidden_state, (1, 8)),
    "whisper_tiny_encoder": Entry(
        lambda: First(__import__("transformers").WhisperModel(__import__("transformers").WhisperConfig()).encoder,
                      lambda result: result.last_hidden_state),
        lambda batch: [torch.randn(batch, 80, 3000, generator=torch.Generator().manual_seed(SEED))], (1, 8), image=False,
        family="transformers"),
    "t5_small_encoder": encoder("T5Encoder", 128),
    "dinov2_small": transformers_model("Dinov2Model", pictures(224), lambda result: result.last_hidden_state, (1, 32), image=True,
                                       hidden_size=384, num_attention_heads=6, image_size=224),
    "siglip_base": transformers_model("SiglipVisionModel", pictures(224), lambda result: result.pooler_output, (1, 32), image=True),
    "depth_anything_small": transformers_model("DepthAnythingForDepthEstimation", pictures(518), lambda result: result.predicted_depth,
                                               (1, 4), image=True),
    "modernbert_base": encoder("ModernBert", 128),
    "mobilebert": encoder("MobileBert", 128),
    "pythia_160m_256": causal("GPTNeoX", 256, hidden_size=768, intermediate_size=3072, num_hidden_layers=12, num_attention_heads=12),
    "qwen3_0_6b_256": causal("Qwen3", 256, hidden_size=1024, intermediate_size=3072, num_hidden_layers=28, num_attention_heads=16,
                             num_key_value_heads=8, head_dim=128, vocab_size=32000),
    "gemma3_270m_256": causal("Gemma3", 256, hidden_size=640, intermediate_size=2048, num_hidden_layers=18, num_attention_heads=4,
                              num_key_value_heads=1, head_dim=256, vocab_size=32000),
    "bart_base": translator("Bart", 128, 32, vocab_size=50265, encoder_layers=6, decoder_layers=6, d_model=768, encoder_ffn_dim=3072,
                            decoder_ffn_dim=3072, encoder_attention_heads=12, decoder_attention_heads=12),
    "sd15_unet": unet(),
    "sd15_vae_decoder": vae_decoder(),
}


# Families of timm that no entry above has, by the package's own name, at 224 pixels unless said.
FAMILIES = {
    "beit_base_patch16_224": 224,
    "botnet26t_256": 256,
    "caformer_s18": 224,
    "coatnet_0_rw_224": 224,
    "convit_tiny": 224,
    "convmixer_768_32": 224,
    "crossvit_tiny_240": 240,
    "cspdarknet53": 256,
    "cspresnext50": 256,
    "dpn68": 224,
    "ecaresnet50t": 224,
    "efficientformer_l1": 224,
    "efficientvim_m1": 224,
    "ese_vovnet19b_dw": 224,
    "fasternet_t0": 224,
    "gcvit_xxtiny": 224,
    "gernet_s": 224,
    "ghostnetv2_100": 224,
    "gmlp_s16_224": 224,
    "halonet26t": 256,
    "hgnetv2_b0": 224,
    "lambda_resnet26t": 256,
    "legacy_seresnet18": 224,
    "mixnet_s": 224,
    "mvitv2_tiny": 224,
    "nest_tiny": 224,
    "nextvit_small": 224,
    "pit_s_224": 224,
    "rdnet_tiny": 224,
    "regnetz_b16": 224,
    "repvit_m1": 224,
    "resmlp_12_224": 224,
    "resnetblur50": 224,
    "selecsls42b": 224,
    "sequencer2d_s": 224,
    "seresnet50": 224,
    "shvit_s1": 224,
    "skresnet18": 224,
    "starnet_s1": 224,
    "swiftformer_xs": 224,
    "tf_efficientnet_b0": 224,
    "tinynet_a": 192,
    "tnt_s_patch16_224": 224,
    "tresnet_m": 224,
    "visformer_small": 224,
    "vit_small_patch16_dinov3": 256,
    "vitamin_small_224": 224,
    "volo_d1_224": 224,
    "xception41": 299,
}
# Of these, convolutional ones, timed in INT8 too.
QUANTISED = {"cspdarknet53", "cspresnext50", "dpn68", "ecaresnet50t", "ese_vovnet19b_dw", "fasternet_t0", "gernet_s", "ghostnetv2_100",
             "hgnetv2_b0", "legacy_seresnet18", "mixnet_s", "regnetz_b16", "repvit_m1", "resnetblur50", "selecsls42b", "seresnet50",
             "skresnet18", "starnet_s1", "tf_efficientnet_b0", "tinynet_a", "tresnet_m", "xception41"}
ZOO |= {name: timm_entry(name, size, int8=name in QUANTISED) for name, size in FAMILIES.items()} | FURTHER


def module_of(name: str) -> nn.Module:
    """The network with its seeded weights, in evaluation mode and FP32, on the CPU."""
    entry = ZOO[name]
    torch.manual_seed(SEED)
    module = entry.make().eval()
    for linear in (m for m in module.modules() if isinstance(m, nn.Linear) and not m.weight.any()):
        nn.init.normal_(linear.weight, std=0.02)  # a head that begins at zero would hide every error before it
    return settled(module, entry.inputs(2))


def typed(module: nn.Module, dtype: Any, device: str, image: bool) -> nn.Module:
    module = copy.deepcopy(module).to(device, dtype)
    return module.to(memory_format=torch.channels_last) if image and dtype == torch.float16 else module


def export(name: str, module: nn.Module, path: str, batch: int) -> None:
    """As a user does: torch.onnx.export by TorchScript, else the newer exporter; the batch axis is free."""
    entry = ZOO[name]
    inputs = [t.half() if entry.half_io and t.is_floating_point() else t for t in entry.inputs(batch)]
    axes = {key: {0: "batch"} for key in entry.names}
    with torch.no_grad():
        results = module(*inputs)
    outputs = [f"output{i}" for i in range(len(results))] if isinstance(results, (tuple, list)) else ["output0"]
    axes |= {key: {0: "batch"} for key in outputs}
    options = {"input_names": list(entry.names), "output_names": outputs, "opset_version": 17}
    try:
        torch.onnx.export(module, tuple(inputs), path, dynamic_axes=axes, dynamo=False, **options)
    except Exception as error:
        print("the TorchScript exporter failed, the newer one instead:", str(error).splitlines()[-1][:200], flush=True)
        free = [{0: torch.export.Dim.DYNAMIC} for _ in inputs]
        # A *past of the module takes its shapes as one tuple.
        shapes = (free[0], tuple(free[1:])) if isinstance(module, Decode) else tuple(free)
        torch.onnx.export(module, tuple(inputs), path, dynamo=True, dynamic_shapes=shapes, **options | {"opset_version": 18})
