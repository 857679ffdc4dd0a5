#pragma once

#include "cli/context.hpp"

namespace lathe::cli {

/// What --columns takes, wherever texts are read.
inline constexpr const char* columns_help =
    "Of a text file: text=NAME,pair=NAME,label=NAME, names of the header line, or numbers from 0 where there is none "
    "(default: sentence, text, sentence1, ...; sentence2, ...; label, score)";

/// What --source takes, wherever PyTorch is a peer.
inline constexpr const char* source_help =
    "FILE.py:function that the model was exported from, for PyTorch's peers. Its code is run, and only if its SHA-256 "
    "digest is the one that the model records";

// One file a subcommand: src/cli/NAME.cpp defines add_NAME, which adds the subcommand, its options and its body.
void add_optimize(Commands& commands);
void add_export(Commands& commands);
void add_inspect(Commands& commands);
void add_simplify(Commands& commands);
void add_calibrate(Commands& commands);
void add_convert_ranges(Commands& commands);
void add_quantize(Commands& commands);
void add_autocast(Commands& commands);
void add_build(Commands& commands);
void add_run(Commands& commands);
void add_bench(Commands& commands);
void add_trtexec_log(Commands& commands);
void add_profile_data(Commands& commands);
void add_eval(Commands& commands);
void add_compare(Commands& commands);
void add_sensitivity(Commands& commands);
void add_tune(Commands& commands);
void add_plan(Commands& commands);
void add_deploy(Commands& commands);
void add_report(Commands& commands);
void add_show(Commands& commands);
void add_doctor(Commands& commands);
void add_completion(Commands& commands);
void add_man(Commands& commands);

} // namespace lathe::cli
