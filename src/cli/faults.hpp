#pragma once

namespace lathe::cli {

/// From here on, what would end the process by a signal of the processor (an access to memory that is not there, a
/// division that has no result, a trap of a library) ends it with a sentence and exit code 1. Nothing is repaired: it
/// is the last line behind the checks, for libraries that fail on what nobody foresaw, and for a mapped file that
/// another program cuts short.
void answer_faults();

} // namespace lathe::cli
