#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "bench/subject.hpp"
#include "lathe/result.hpp"
#include "runtime/engine.hpp"

namespace lathe {

/// An engine file, through the same Session that users run: binding inputs in place, running and fetching the outputs
/// are all inside the timed call. `engine` was loaded from `info.file`.
std::unique_ptr<Subject> make_engine_subject(SubjectInfo info, Engine engine);

/// The engine's inputs at a batch size: axis 0 is the batch, other open sizes are the profile's optimum.
/// Errors: out_of_range (names the input and its range).
Result<std::vector<InputSpec>> engine_inputs(const EngineInfo& info, std::int64_t batch);

} // namespace lathe
