#pragma once

#include "cli/context.hpp"

namespace lathe::cli {

// One file a subcommand: src/cli/NAME.cpp defines add_NAME, which adds the subcommand, its options and its body.
void add_optimize(Commands& commands);
void add_export(Commands& commands);
void add_inspect(Commands& commands);
void add_simplify(Commands& commands);
void add_calibrate(Commands& commands);
void add_quantize(Commands& commands);
void add_build(Commands& commands);
void add_run(Commands& commands);
void add_bench(Commands& commands);
void add_eval(Commands& commands);
void add_report(Commands& commands);
void add_doctor(Commands& commands);

} // namespace lathe::cli
