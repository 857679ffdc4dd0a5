#pragma once

#include <set>
#include <span>
#include <string>
#include <vector>

#include "correct/channel_classes.hpp"
#include "graph/graph.hpp"

namespace lathe {

/// Values that MatMuls read and whose channels nothing before them can scale: behind a LayerNormalization that a
/// residual sum reads too (post-norm, as in BERT), behind a GELU, out of attention. There a Mul in front of the layers
/// takes the factors (ChannelClass::value), and all others read the value as it is:
///
///     x -> MatMul(W)      becomes      x -> Mul(s) -> MatMul(W / s)
///     x -> Add                         x -> Add
///
/// Runtimes that quantise a float value in a pass of its own multiply in the same pass.
///
/// `layers`: outputs of the MatMuls in question, those in int8; `classes`: what is scaled otherwise and left out here.
/// Only values of three dimensions and more: a convolutional network's classifier reads two. Shapes must be inferred.
std::vector<ChannelClass> scaled_inputs(const Model& model, const std::vector<ChannelClass>& classes,
                                        const std::set<std::string>& layers);

/// Puts the Mul in. `readers` read the value and come after it.
void scale_in_front(Graph& graph, const std::string& value, std::span<const float> factors,
                    const std::vector<Node*>& readers);

} // namespace lathe
