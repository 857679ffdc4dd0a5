#include "api/correct.hpp"

#include <algorithm>

#include "api/model_data.hpp"
#include "data/open_dataset.hpp"

namespace lathe {

Result<CorrectOutcome> quantize_on_samples(const Model& model, const RangesFile& ranges,
                                           const QuantizeOptions& quantize, const CorrectOptions& options,
                                           const OpenData& open, Progress& progress) {
    if (!ranges.source.empty() && (options.equalize || options.auto_ranges)) {
        return Error{ErrorCode::invalid_argument,
                     "equalisation and ranges by error need the histograms of a calibration", ranges.source,
                     "take --effort 1 or --rounding output-error, or calibrate: lathe calibrate MODEL --data DIR"};
    }
    CorrectOptions own = options;
    for (const InputSpec& input : input_specs(model)) {
        if (input.shape.empty() || input.shape[0] <= 0) continue;
        own.batch_size = static_cast<std::size_t>(input.shape[0]);
        own.fixed_batch = true;
    }
    return quantize_corrected(model, ranges, quantize, own, open, progress);
}

Result<CorrectOutcome> quantize_on_data(const Model& model, const RangesFile& ranges, const QuantizeOptions& quantize,
                                        const CorrectOptions& options, const CorrectData& data, Progress& progress) {
    if (!options.any()) {
        CorrectOutcome outcome;
        LATHE_TRY(outcome.quantized, quantize_model(model, ranges, quantize));
        return outcome;
    }
    if (data.data.empty() && data.arrays.empty()) {
        return Error{ErrorCode::invalid_argument, "correcting the quantisation needs the calibration data", "--data",
                     "give --data DIR, or --effort 0"};
    }
    std::optional<Preprocess> preprocess = data.preprocess;
    if (!preprocess) {
        LATHE_TRY(preprocess, preprocess_of(model));
    }
    const OpenData open = [&](std::size_t samples) {
        DatasetOptions opening;
        opening.text = text_options(model, data.columns);
        opening.samples = samples;
        opening.threads = options.threads;
        if (!data.arrays.empty()) return dataset_of_arrays(data.arrays, {}, input_specs(model), opening);
        return open_dataset(data.data, preprocess, input_specs(model), opening);
    };
    return quantize_on_samples(model, ranges, quantize, options, open, progress);
}

} // namespace lathe
