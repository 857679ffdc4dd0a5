#pragma once

#include <optional>
#include <string>

#include "api/correct.hpp"
#include "cli/commands.hpp"

namespace lathe::cli {

/// The options with which a command corrects quantisation errors.
struct CorrectionArguments {
    std::optional<int> effort;   ///< absent: what the command does by itself
    std::string bias_correction; ///< empty: what the effort says; likewise below
    std::string rounding;
    std::string equalize;
    std::string smooth;
    std::string last_layers;
    std::string noisy_layers = "auto";
    std::string data;
    std::string columns;
    std::string preprocess;
};

/// `usual`: what is done where no effort is asked for, for the help. `with_data`: the command has no option of its own
/// for the data.
void add_correction_options(CLI::App& command, CorrectionArguments& arguments, const std::string& usual,
                            bool with_data = true);
/// What is chosen one by one, in place of what the effort means.
CorrectionChoice choice_of(const CorrectionArguments& arguments);
/// `method`: of the command's --method; "auto" asks for ranges by error, another one for that one alone.
CorrectOptions options_of(const CorrectionArguments& arguments, const std::string& method);
Result<CorrectData> data_of(const CorrectionArguments& arguments, const Model& model);
/// Whether layers that int8 turns into noise are left in float: QuantizeOptions::noisy_in_float.
bool noisy_in_float(const CorrectionArguments& arguments);
/// The layers that were, if any.
void print_noisy_layers(const QuantizeOutcome& outcome, const Context& context);
/// A line for each correction: what it gained, and whether it was kept.
void print_corrections(const CorrectOutcome& outcome, const Context& context);

} // namespace lathe::cli
