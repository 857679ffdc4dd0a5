#include "cli/correction.hpp"
#include "api/model_data.hpp"
#include "cli/preprocess.hpp"

namespace lathe::cli {
void add_correction_options(CLI::App& command, CorrectionArguments& arguments, const std::string& usual,
                            bool with_data) {
    command
        .add_option("--effort", arguments.effort,
                    "How much to correct what quantisation costs; every step is kept only if it gains on held-back "
                    "samples. 0: nothing, a second; 1: cheap layers of detectors and segmenters in float that the "
                    "answer is measured to depend on, SmoothQuant and fast bias correction, 5 to 40 seconds; 2: last "
                    "layers in float where that is nearly free, equalisation, exact bias correction and weight "
                    "rounding, about a minute on two cores for ResNet-50; 3: also ranges by error, and all from up to "
                    "three times the samples (default: " +
                        usual + ")")
        ->check(CLI::Range(0, 3));
    command
        .add_option("--bias-correction", arguments.bias_correction,
                    "Biases take the mean error of their layer: exact: on the inputs that the corrected layers before "
                    "it give; fast: on the float ones (default: by --effort)")
        ->check(CLI::IsMember({"none", "fast", "exact"}));
    command
        .add_option("--rounding", arguments.rounding,
                    "Weights: to the nearest step, or so that the layer's output errs least, on the inputs that "
                    "--bias-correction looks at (default: by --effort)")
        ->check(CLI::IsMember({"nearest", "output-error"}));
    command
        .add_option("--equalize", arguments.equalize,
                    "Scale channels between layers, so that activations use their 8 bits (default: by --effort)")
        ->check(CLI::IsMember({"on", "off"}));
    command
        .add_option(
            "--smooth", arguments.smooth,
            "The same in front of a transformer's layers, in the weights of a LayerNormalization or, for openvino, "
            "by a Mul: SmoothQuant (default: by --effort)")
        ->check(CLI::IsMember({"on", "off"}));
    command
        .add_option("--last-layers", arguments.last_layers,
                    "The network's last layers: in int8, or in float (auto) where that adds at most 0.5 % to the int8 "
                    "network's work and 10 % to its weights' bytes, and the error falls by 3 % (default: by --effort)")
        ->check(CLI::IsMember({"auto", "int8"}));
    command
        .add_option(
            "--noisy-layers", arguments.noisy_layers,
            "Layers to whose output int8 would add noise of 2 % of its variance or more, and many times that "
            "of the others, told by the calibration's histograms; and the last convolutions of what answers for "
            "each place of an image: in int8, or in float (auto) where all of a kind together cost at most "
            "about 4 % of the time (with layers of 20 % noise and more 8 %), or one that makes a fifth of all noise at "
            "most 1 %")
        ->check(CLI::IsMember({"auto", "int8"}))
        ->capture_default_str();
    if (!with_data) return;
    command.add_option("--data", arguments.data, "The calibration's data, for --effort over 0 and its parts");
    command.add_option("--columns", arguments.columns, "Of a text file: as for lathe calibrate");
    command.add_option("--preprocess", arguments.preprocess, preprocess_help());
}

bool noisy_in_float(const CorrectionArguments& arguments) { return arguments.noisy_layers == "auto"; }

void print_noisy_layers(const QuantizeOutcome& outcome, const Context& context) {
    if (outcome.in_float.empty()) return;
    context.print("In float, since int8 harms most there (--noisy-layers int8 keeps it):");
    for (const std::string& line : in_words(outcome.in_float))
        context.print("  " + line);
}

CorrectionChoice choice_of(const CorrectionArguments& arguments) {
    CorrectionChoice choice;
    if (arguments.bias_correction == "none") choice.bias = BiasCorrection::none;
    if (arguments.bias_correction == "fast") choice.bias = BiasCorrection::fast;
    if (arguments.bias_correction == "exact") choice.bias = BiasCorrection::exact;
    if (arguments.rounding == "nearest") choice.rounding = Rounding::nearest;
    if (arguments.rounding == "output-error") choice.rounding = Rounding::output_error;
    if (!arguments.equalize.empty()) choice.equalize = arguments.equalize == "on";
    if (!arguments.smooth.empty()) choice.smooth = arguments.smooth == "on";
    if (!arguments.last_layers.empty()) choice.float_last = arguments.last_layers == "auto";
    if (arguments.noisy_layers != "auto") choice.noisy_in_float = false;
    return choice;
}

CorrectOptions options_of(const CorrectionArguments& arguments, const std::string& method) {
    CorrectOptions options = options_of_effort(arguments.effort.value_or(0), choice_of(arguments));
    if (!method.empty()) options.auto_ranges = method == "auto";
    return options;
}

Result<CorrectData> data_of(const CorrectionArguments& arguments, const Model& model) {
    CorrectData data;
    data.data = arguments.data;
    data.columns = arguments.columns;
    LATHE_TRY(data.preprocess, PreprocessChoice(arguments.preprocess).resolve(input_specs(model)));
    return data;
}

void print_corrections(const CorrectOutcome& outcome, const Context& context) {
    for (const std::string& line : describe(outcome))
        context.print(line);
}

} // namespace lathe::cli
