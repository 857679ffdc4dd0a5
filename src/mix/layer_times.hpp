#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lathe/engine.hpp"
#include "lathe/progress.hpp"
#include "lathe/result.hpp"

namespace lathe {

/// Milliseconds of each named layer: the times of what the backend executed, each given to the layer that was fused
/// into it (in equal parts where there are several). 0 for a layer that is not found.
std::vector<double> times_by_layer(const std::vector<LayerInfo>& executed, const std::vector<std::string>& layers);

/// What each layer takes less in the second engine than in the first, in ms, by the backend's own layer times on random
/// inputs. Both were built with profiling. Where a backend tells no times, or its names match none of the layers, all
/// are 0.
Result<std::vector<double>> layer_gains(const Engine& plain, const Engine& quantised,
                                        const std::vector<std::string>& layers, std::int64_t batch_size,
                                        Progress& progress);

} // namespace lathe
