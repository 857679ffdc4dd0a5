#pragma once

#include "cli/commands.hpp"
#include "lathe/evaluate.hpp"

namespace lathe::cli {

/// --task and what else says how engines are judged.
void add_task_options(CLI::App& command, TaskOptions& task);

} // namespace lathe::cli
