#pragma once

#include <map>
#include <set>
#include <span>
#include <string>

#include "lathe/engine_types.hpp"
#include "lathe/result.hpp"

namespace lathe {

/// Where layers are known from: the network as TensorRT's parser made it (each layer in the precision that its tensors
/// say, nothing fused), or the finished engine, from its inspector.
enum class LayerSource { network, engine };
std::string to_string(LayerSource source); ///< "network", "engine"

/// Layers with their multiply-accumulates (`LayerInfo::macs`), to be judged.
struct LayerAudit {
    std::span<const LayerInfo> layers;
    LayerSource source = LayerSource::network;
    /// Layers, or ONNX nodes in them, whose factors are both activations (attention's products): an int8 model leaves
    /// them in floating point on purpose, so they are part of every share but not of what int8 is asked for.
    std::set<std::string> between_activations;
};

/// Of the multiply-accumulates of all layers, by precision; empty where nothing multiplies.
std::map<std::string, double> precision_shares(std::span<const LayerInfo> layers);

/// Whether a finished engine's layers tell at least 90 % of the network's multiply-accumulates. They do not where the
/// builder fused products into layers whose sizes it keeps to itself.
bool tells_the_work(std::span<const LayerInfo> engine, std::span<const LayerInfo> network);

/// At least 90 % of the multiply-accumulates must be in the precision asked (fp16 and bf16: or in int8, which a graph's
/// Q/DQ ask for), unless allowed otherwise; none at all is never enough. fp32 and tf32 ask for nothing.
/// Errors: unsupported, with the shares, the layers that are in another precision, and whose account it is.
Result<void> check_precision(const LayerAudit& audit, Precision asked, bool allow_fallback);

} // namespace lathe
