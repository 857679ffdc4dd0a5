#pragma once

#include <filesystem>
#include <istream>
#include <ostream>

#include "lathe/result.hpp"

namespace lathe {

/// Times a GPU engine in turns with another program that runs on the same GPU: requests are read line by line, each
/// answered by one line, until the input ends. Between a request's answer and the next request nothing runs.
///
/// Request: {"inputs": {NAME: FILE.npy, ...}, "calls": N} and as wished "warm": N (calls before those timed),
/// "timed": false (one undivided call instead of copies and kernels apart), "save": FILE.npz (the last outputs).
/// Without "inputs" those of the last request are used again.
/// Answer: {"call_ms": [...]}, and if timed "device_ms", "copy_in_ms", "copy_out_ms" (the device's clock) and
/// "enqueue_us" (what the calling thread spent handing over the work), a value a call; or {"error": {...}}.
/// Errors: of loading the engine; later ones are answers.
Result<void> serve_turns(const std::filesystem::path& engine, std::istream& requests, std::ostream& answers);

} // namespace lathe
