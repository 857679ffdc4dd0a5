#pragma once

#include <CLI/CLI.hpp>

#include "lathe/result.hpp"

namespace lathe::cli {

/// The options, in all commands, that name a file or folder to write.
bool is_written(const CLI::Option& option);

/// Refuses a command line whose output is one of its inputs, also by a link of either kind, through a model's external
/// data or as a picture in a folder of them; and two outputs that are one file. Any value of any option may name an
/// input (NAME=FILE, NAME:FILE, lists of them), so a new option cannot be forgotten. Nothing has been read or written
/// by then. Errors: invalid_argument.
Result<void> refuse_lost_inputs(const CLI::App& command);

} // namespace lathe::cli
