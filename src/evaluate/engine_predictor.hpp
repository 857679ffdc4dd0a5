#pragma once

#include <memory>
#include <string>

#include "evaluate/evaluate.hpp"
#include "lathe/result.hpp"
#include "runtime/engine.hpp"

namespace lathe {

/// An engine as a predictor of one of its outputs, converted to float32 where it is half precision.
/// `name` is how results call it; `output` names the output, empty for the first.
/// Batches outside the engine's profile are split, and short ones padded, where the profile demands it.
/// Errors: not_found (no such output), unsupported (an output that is not floating point).
Result<std::unique_ptr<Predictor>> make_engine_predictor(const Engine& engine, std::string name,
                                                         const std::string& output = {});

} // namespace lathe
