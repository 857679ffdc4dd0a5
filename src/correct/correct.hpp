#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "correct/judge.hpp"
#include "correct/layers.hpp"
#include "data/dataset.hpp"
#include "lathe/correction.hpp"
#include "quantize/quantize.hpp"
#include "support/progress.hpp"

namespace lathe {

/// Which corrections are tried. Each is kept only if the network comes closer to the float model on held-back samples.
struct CorrectOptions {
    bool float_last = false; ///< leave the last layers in float where that costs next to nothing
    /// Leave cheap layers in float that the answer is measured to depend on, where it is no row of classes and
    /// QuantizeOptions::noisy_in_float allows layers in float.
    bool measured_layers = false;
    bool equalize = false;
    bool smooth = false;
    bool auto_ranges = false;
    BiasCorrection bias = BiasCorrection::none;
    Rounding rounding =
        Rounding::nearest; ///< looks at the same inputs as the bias correction: with `fast` the float ones
    std::size_t fit_samples = 64;
    std::size_t held_back_samples = 192; ///< a network near the float one needs many to be told from a nearer one
    std::size_t positions = 4096;        ///< of a layer's output, looked at
    std::size_t batch_size = 16;
    bool fixed_batch = false; ///< the model takes batches of just that size
    std::size_t threads = 0;

    bool any() const {
        return float_last || measured_layers || equalize || smooth || auto_ranges || bias != BiasCorrection::none ||
               rounding != Rounding::nearest;
    }
};

/// What `--effort` means. 0: nothing. 1: cheap layers in float by measurement, SmoothQuant and fast bias correction. 2:
/// last layers in float, equalisation, weight rounding and exact bias correction too. 3: also ranges by error, all
/// fitted on three times the samples. `choice`: corrections chosen one by one, in place of that.
CorrectOptions options_of_effort(int effort, const CorrectionChoice& choice = {});

/// What came of one correction.
struct Correction {
    std::string method; ///< "last-layers", "measured-layers", "equalize", "smooth", "ranges", "bias-correction",
                        ///< "rounding" (with biases)
    bool kept = false;
    std::string detail; ///< how often it fired, or why it did not
    Closeness before, after;
    double seconds = 0.0;
    bool tried = true; ///< a network was made and judged; else there was nothing to do, which `detail` explains
};

struct CorrectOutcome {
    QuantizeOutcome quantized;           ///< its document holds {"corrections": [...]}
    Model real;                          ///< the float model it is of: as given, or equalised
    RangesFile ranges;                   ///< of that model
    std::map<std::string, Range> chosen; ///< by error, in place of what `ranges` gives: QuantizeOptions::chosen
    std::vector<Correction> corrections;
    Closeness first, last; ///< without any correction, and with those kept
    std::size_t fit_samples = 0;
    std::size_t held_back_samples = 0;
    double seconds = 0.0;
};

/// Opens the calibration data with that many samples of it, spread evenly; 0: all.
using OpenData = std::function<Result<std::unique_ptr<Dataset>>(std::size_t samples)>;

/// quantize_model, then what `options` asks for, on the data that the ranges are from.
/// Errors: as quantize_model; those of running the model; not_found (too few samples); cancelled.
Result<CorrectOutcome> quantize_corrected(const Model& model, const RangesFile& ranges, const QuantizeOptions& quantize,
                                          const CorrectOptions& options, const OpenData& open, Progress& progress);

/// {"corrections": [{"method", "kept", "detail", "before", "after", "seconds"}], ...}, as the report has it.
Json to_json(const CorrectOutcome& outcome);

/// A line for each correction: what it gained, and whether it was kept. None where none was tried.
std::vector<std::string> describe(const CorrectOutcome& outcome);

} // namespace lathe
