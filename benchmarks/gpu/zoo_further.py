"""Networks of architectures that nobody here had in mind when the engine was written: the zoo's second half."""

import torch
from torch import nn

from gpu.zoo_entries import (SEED, Entry, First, causal, encoder, pictures, timm_entry, torchvision_entry, transformers_model, translator,
                             video, waves)


def seeded(*shapes):
    """Standard normal inputs; a shape's first number is the batch and is replaced."""

    def make(batch):
        generator = torch.Generator().manual_seed(SEED + batch)
        return [torch.randn(batch, *shape, generator=generator) for shape in shapes]

    return make


def diffusers_model(kind, inputs, batches, names, **options):
    def make():
        import diffusers

        return First(getattr(diffusers, kind)(**options), lambda result: result.sample)

    return Entry(make, inputs, batches, names, family="diffusers")


def with_backbone(kind, backbone, inputs, pick, batches, **options):
    """A detector or segmenter of transformers over one of its own ResNets or other feature extractors."""

    def make():
        import transformers

        parts = getattr(transformers, f"{backbone[0]}Config")(**backbone[1])
        config = getattr(transformers, kind.split("For")[0] + "Config")(backbone_config=parts, **options)
        return First(getattr(transformers, kind)(config), pick)

    return Entry(make, inputs, batches, family="transformers")


def codec_decoder(batches=(1, 8)):
    """EnCodec's decoder at 24 kHz: an LSTM and transposed convolutions over 150 steps, two seconds."""

    def make():
        import transformers

        return transformers.EncodecModel(transformers.EncodecConfig()).decoder

    return Entry(make, seeded((128, 150)), batches, image=False, family="transformers")


def vocoder(batches=(1, 8)):
    """HiFi-GAN: 80 mel bands to waves, 256 steps."""

    def make():
        import transformers

        class Vocoder(nn.Module):
            def __init__(self):
                super().__init__()
                self.module = transformers.SpeechT5HifiGan(transformers.SpeechT5HifiGanConfig(normalize_before=False))

            def forward(self, spectrogram):
                return self.module(spectrogram)

        return Vocoder()

    return Entry(make, seeded((256, 80)), batches, image=False, family="transformers")


class Denoiser(nn.Module):
    """Demucs' form: strided 1-D convolutions with GLU, a bidirectional LSTM, transposed convolutions and skips."""

    def __init__(self, channels=48, depth=4):
        super().__init__()
        self.encoder, self.decoder = nn.ModuleList(), nn.ModuleList()
        inner, outer = 1, channels
        for level in range(depth):
            self.encoder.append(nn.Sequential(nn.Conv1d(inner, outer, 8, 4, 2), nn.ReLU(), nn.Conv1d(outer, 2 * outer, 1), nn.GLU(1)))
            tail = [nn.ReLU()] if level else []
            self.decoder.insert(0, nn.Sequential(nn.Conv1d(outer, 2 * outer, 1), nn.GLU(1), nn.ConvTranspose1d(outer, inner, 8, 4, 2), *tail))
            inner, outer = outer, 2 * outer
        self.lstm = nn.LSTM(inner, inner, 1, batch_first=True, bidirectional=True)
        self.mix = nn.Linear(2 * inner, inner)

    def forward(self, x):
        skips = []
        for level in self.encoder:
            x = level(x)
            skips.append(x)
        x = self.mix(self.lstm(x.transpose(1, 2))[0]).transpose(1, 2)
        for level in self.decoder:
            x = level(x + skips.pop())
        return x


class Dilated(nn.Module):
    """WaveNet's form: gated dilated convolutions in time with residuals and skips."""

    def __init__(self, width=64, layers=20):
        super().__init__()
        self.begin = nn.Conv1d(80, width, 1)
        self.gates = nn.ModuleList(nn.Conv1d(width, 2 * width, 3, padding=2 ** (i % 10), dilation=2 ** (i % 10)) for i in range(layers))
        self.ways = nn.ModuleList(nn.Conv1d(width, 2 * width, 1) for _ in range(layers))
        self.end = nn.Sequential(nn.ReLU(), nn.Conv1d(width, width, 1), nn.ReLU(), nn.Conv1d(width, 80, 1))

    def forward(self, x):
        x, total = self.begin(x), 0
        for gate, way in zip(self.gates, self.ways):
            a, b = gate(x).chunk(2, 1)
            more, skip = way(torch.tanh(a) * torch.sigmoid(b)).chunk(2, 1)
            x, total = x + more, total + skip
        return self.end(total)


class PointCloud(nn.Module):
    """PointNet's form: shared layers a point, a maximum over points, a transform that is learnt."""

    def __init__(self, classes=40):
        super().__init__()

        def shared(*widths):
            return nn.Sequential(*(part for a, b in zip(widths, widths[1:]) for part in (nn.Conv1d(a, b, 1), nn.BatchNorm1d(b), nn.ReLU())))

        self.turn = shared(3, 64, 128, 1024)
        self.matrix = nn.Sequential(nn.Linear(1024, 256), nn.ReLU(), nn.Linear(256, 9))
        self.first, self.second = shared(3, 64, 64), shared(64, 128, 1024)
        self.head = nn.Sequential(nn.Linear(1024, 512), nn.ReLU(), nn.Linear(512, classes))

    def forward(self, x):
        turn = self.matrix(self.turn(x).amax(2)).view(-1, 3, 3)
        return self.head(self.second(self.first(torch.bmm(turn, x))).amax(2))


class Gated(nn.Module):
    """A GRU of two layers over a mel spectrogram, as small speech models are."""

    def __init__(self, bands=80, width=256):
        super().__init__()
        self.gru = nn.GRU(bands, width, 2, batch_first=True)
        self.head = nn.Linear(width, bands)

    def forward(self, x):
        return x * torch.sigmoid(self.head(self.gru(x)[0]))


def own(module, inputs, batches=(1, 32), image=False):
    return Entry(module, inputs, batches, image=image, family="own")


last = lambda result: result.last_hidden_state
CAUSAL = {"vocab_size": 32000, "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12}

FURTHER = {
    "deberta_v3_small": encoder("DebertaV2", 128, hidden_size=768, num_hidden_layers=6, relative_attention=True, position_buckets=256,
                                norm_rel_ebd="layer_norm", share_att_key=True, pos_att_type=["p2c", "c2p"],
                                position_biased_input=False, max_relative_positions=-1),
    "albert_base": encoder("Albert", 128, hidden_size=768, num_attention_heads=12, intermediate_size=3072),
    "mpnet_base": encoder("MPNet", 128),
    "electra_small": encoder("Electra", 128),
    "opt_125m_256": causal("OPT", 256, vocab_size=32000),
    "bloom_256": causal("Bloom", 256, vocab_size=32000, hidden_size=768, n_layer=12, n_head=12),
    "falcon_256": causal("Falcon", 256, **CAUSAL, alibi=False, multi_query=True),
    "phi_256": causal("Phi", 256, **CAUSAL, intermediate_size=3072, partial_rotary_factor=0.5),
    "mistral_256": causal("Mistral", 256, **CAUSAL, intermediate_size=2688, num_key_value_heads=4, sliding_window=128),
    "marian": translator("Marian", 64, 32, vocab_size=32000, pad_token_id=0, decoder_start_token_id=0, d_model=512, encoder_layers=6,
                         decoder_layers=6, encoder_ffn_dim=2048, decoder_ffn_dim=2048, encoder_attention_heads=8,
                         decoder_attention_heads=8, activation_function="swish"),
    "t5_small": translator("T5", 128, 32, vocab_size=32128),
    "detr_resnet50": with_backbone("DetrForObjectDetection", ("ResNet", {"out_features": ["stage4"]}), pictures(640),
                                   lambda result: (result.logits, result.pred_boxes), (1, 8), use_timm_backbone=False,
                                   use_pretrained_backbone=False),
    "yolos_tiny": transformers_model("YolosForObjectDetection", pictures(512), lambda result: (result.logits, result.pred_boxes), (1, 8),
                                     image=True, hidden_size=192, num_attention_heads=3, intermediate_size=768, image_size=[512, 512],
                                     use_mid_position_embeddings=False),
    "swin2sr": transformers_model("Swin2SRForImageSuperResolution", pictures(128), lambda result: result.reconstruction, (1, 4),
                                  image=True, image_size=128, embed_dim=60, depths=[6, 6, 6, 6], num_heads=[6, 6, 6, 6], window_size=8,
                                  upscale=2, upsampler="pixelshuffledirect", mlp_ratio=2.0),
    "wavlm_base": transformers_model("WavLMModel", waves(32000), last, (1, 8)),
    "wav2vec2_bert": transformers_model("Wav2Vec2BertModel", seeded((200, 160)), last, (1, 8), num_hidden_layers=6, hidden_size=512,
                                        num_attention_heads=8, intermediate_size=2048, output_hidden_size=512),
    "audio_spectrogram": transformers_model("ASTModel", seeded((1024, 128)), last, (1, 8)),
    "encodec_decoder": codec_decoder(),
    "hifigan": vocoder(),
    "videomae_base": transformers_model("VideoMAEModel", seeded((16, 3, 224, 224)), last, (1, 4)),
    "s3d": video("s3d", 224),
    "r2plus1d_18": video("r2plus1d_18"),
    "swin3d_t": video("swin3d_t", 224, (1, 4)),
    "deeplabv3_mobilenet": Entry(lambda: First(__import__("torchvision").models.get_model(
        "deeplabv3_mobilenet_v3_large", weights=None, weights_backbone=None), lambda result: result["out"]), pictures(512), (1, 8)),
    "wide_resnet50_2": torchvision_entry("wide_resnet50_2", int8=True),
    "efficientnet_b4": torchvision_entry("efficientnet_b4", 380, int8=True),
    "sam2_hiera_tiny": timm_entry("sam2_hiera_tiny", 896, (1, 2)),
    "ddpm_unet": diffusers_model("UNet2DModel", lambda batch: [*seeded((3, 64, 64))(batch), torch.full((batch,), 500.0)], (1, 8),
                                 ("sample", "timestep"), sample_size=64, block_out_channels=(128, 128, 256, 256, 512, 512),
                                 down_block_types=("DownBlock2D",) * 4 + ("AttnDownBlock2D", "DownBlock2D"),
                                 up_block_types=("UpBlock2D", "AttnUpBlock2D") + ("UpBlock2D",) * 4),
    "dit_s": diffusers_model("DiTTransformer2DModel",
                             lambda batch: [*seeded((4, 32, 32))(batch), torch.full((batch,), 500), torch.full((batch,), 7)], (1, 8),
                             ("hidden_states", "timestep", "class_labels"), num_attention_heads=6, attention_head_dim=64, num_layers=12,
                             in_channels=4, out_channels=8, sample_size=32),
    "pixart": diffusers_model("PixArtTransformer2DModel",
                              lambda batch: [*seeded((4, 64, 64), (120, 4096))(batch), torch.full((batch,), 500)], (1, 4),
                              ("hidden_states", "encoder_hidden_states", "timestep"), num_attention_heads=16, attention_head_dim=72,
                              num_layers=8, sample_size=64, caption_channels=4096, cross_attention_dim=1152,
                              use_additional_conditions=False),
    "demucs_like": own(Denoiser, seeded((1, 16384)), (1, 8)),
    "wavenet_like": own(Dilated, seeded((80, 1000)), (1, 8)),
    "pointnet_like": own(PointCloud, seeded((3, 1024))),
    "gru_speech": own(Gated, seeded((200, 80))),
}
