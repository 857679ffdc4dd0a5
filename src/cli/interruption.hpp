#pragma once

#include <string>

namespace lathe::cli {

/// From here on SIGINT and SIGTERM ask the command to stop: `interrupted()` is true, and it has 1.5 s to come to its
/// next look at that. A library's long call never looks. Then, or at a second signal, the process is ended for it: its
/// children and theirs first, unfinished files removed, a sentence on standard error, and where `json` is true by then
/// its error document on standard output.
void answer_interruptions(const bool& json);

bool interrupted();

/// 128 + the signal: 130 for Ctrl-C, 143 for SIGTERM.
int interrupted_exit_code();

/// Never returns once the process is being ended: what goes wrong then, because children are gone, is not to be told.
void wait_if_ending();

/// Kills what was started and still runs, directly or by a child that has ended since.
void end_children();

} // namespace lathe::cli
