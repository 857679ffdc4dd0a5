#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "backends/api/backend.hpp"
#include "graph/graph.hpp"

namespace lathe {

/// One value of a network, an entry for every batch of samples.
using Batches = std::vector<HostTensor>;

/// A value given to a model, by the name of its input.
struct Given {
    std::string name;
    const Batches* batches = nullptr;
};

/// Runs a model without declared inputs on the default backend, once a batch; the inputs are declared as what is given.
/// Returns the model's outputs, in their order. All of `given` have the same number of batches, at least one.
/// Errors: invalid_argument (nothing given), what compiling and running give.
Result<std::vector<Batches>> run_batches(Model model, const std::vector<Given>& given, std::size_t threads,
                                         Precision precision = Precision::float32);

} // namespace lathe
