#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "bench/trtexec_log.hpp"

namespace lathe {

/// A warning of trtexec or TensorRT that changes what its numbers mean; nothing for the others.
std::optional<TrtexecRemark> remark_of(std::string_view warning, std::size_t line);

/// Adds it, or counts it with the one of that name which is there.
void add_remark(TrtexecRun& run, TrtexecRemark remark);

/// What follows from the whole run: too short, too few queries for its percentiles, random int8 scales, an unfinished
/// log, ...
void conclude(TrtexecRun& run);

} // namespace lathe
