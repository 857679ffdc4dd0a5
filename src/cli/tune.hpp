#pragma once

#include <string>

#include <CLI/CLI.hpp>

#include "lathe/engine_types.hpp"

namespace lathe::cli {

/// --tune, the same for every command that builds.
inline void add_tune_option(CLI::App& command, std::string& tune) {
    command.add_option("--tune", tune, "GPU: how long kernels may be timed: fast, default or full")
        ->check(CLI::IsMember({"fast", "default", "full"}))
        ->capture_default_str();
}

/// What the option says; its check lets no other names through.
inline TuneEffort tune_effort(const std::string& tune) {
    return tune == "fast" ? TuneEffort::fast : tune == "full" ? TuneEffort::full : TuneEffort::standard;
}

} // namespace lathe::cli
