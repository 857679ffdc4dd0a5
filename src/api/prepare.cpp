#include "api/prepare.hpp"

#include "api/calibrate.hpp"
#include "api/model_data.hpp"
#include "api/simplify.hpp"
#include "calibrate/model_key.hpp"
#include "data/labels.hpp"
#include "onnx/onnx.hpp"
#include "support/files.hpp"
#include "support/hash.hpp"
#include "support/json.hpp"

namespace lathe {

namespace {

Result<RangesFile> ranges_for(const PrepareOptions& options, PreparedModel& prepared, const Model& original,
                              Progress& progress, const OwnSamples& own_samples) {
    Model& simplified = prepared.model;
    if (options.ranges.empty()) {
        CalibrateRequest request;
        request.data = options.calibrate.empty() ? options.data : options.calibrate;
        request.columns = options.columns;
        request.samples = options.calibrate_samples;
        request.threads = options.threads;
        LATHE_TRY(request.method, method_from_name(options.method));
        if (options.calibrate.empty() && own_samples) {
            LATHE_TRY(std::vector<HostTensor> arrays, own_samples(prepared));
            LATHE_TRY(CalibrateOutcome own, calibrate_arrays(simplified, std::move(arrays), request, progress));
            return std::move(own.ranges);
        }
        LATHE_TRY(CalibrateOutcome outcome, calibrate_model(simplified, request, progress));
        return std::move(outcome.ranges);
    }
    LATHE_TRY(RangesFile ranges, load_ranges(options.ranges));
    if (validate_ranges(ranges, simplified)) return ranges;
    // Made for the model as it is in the file.
    LATHE_CHECK(validate_ranges(ranges, original));
    simplified = original;
    return ranges;
}

} // namespace

Result<PreparedModel> prepare_model(const PrepareOptions& options, Progress& progress, const OwnSamples& own_samples) {
    LATHE_CHECK(look_for({options.model, options.data, options.calibrate, options.ranges}));
    PreparedModel prepared;
    LATHE_TRY(Model original, load_onnx(options.model));
    if (!options.preprocess.empty()) {
        LATHE_TRY(const Preprocess preprocess, preprocess_named(options.preprocess, input_specs(original)));
        original.set_metadata("lathe.preprocess", preprocess.to_json().dump());
    }
    LATHE_TRY(prepared.preprocess, preprocess_of(original));
    LATHE_TRY(prepared.source_hash, hash_file(options.model));
    prepared.model = original;
    SimplifyOptions simplify;
    simplify.progress = &progress;
    LATHE_TRY(const SimplifyReport simplified, simplify_model(prepared.model, simplify));
    prepared.notices = simplified.warnings;
    LATHE_TRY(prepared.ranges, ranges_for(options, prepared, original, progress, own_samples));
    progress.end();

    Hasher hasher;
    hasher.update(std::string_view(LATHE_VERSION));
    hasher.update(prepared.source_hash);
    hasher.update(calibration_key(prepared.model));
    hasher.update(prepared.ranges.key.data);
    hasher.update(static_cast<std::int64_t>(prepared.ranges.samples_seen));
    hasher.update(std::string_view(to_string(prepared.ranges.method)));
    hasher.update(prepared.ranges.options.guard ? "guard" : "no guard");
    hasher.update(std::to_string(prepared.ranges.options.percentile));
    hasher.update(prepared.preprocess ? prepared.preprocess->to_json().dump() : std::string());
    prepared.key = hasher.hex();
    return prepared;
}

Result<std::unique_ptr<Dataset>> open_labelled(const std::filesystem::path& data, const PreparedModel& prepared,
                                               const PrepareOptions& options) {
    DatasetOptions dataset;
    dataset.samples = options.samples;
    dataset.threads = options.threads;
    dataset.text = text_options(prepared.model, options.columns);
    dataset.text.labels = TextLabels::classes;
    if (const std::string* stored = prepared.model.find_metadata("lathe.labels"); stored != nullptr) {
        LATHE_TRY(const Json names, parse_json(*stored, "metadata lathe.labels"));
        LATHE_TRY(dataset.text.class_names, class_names_from_json(names, "metadata lathe.labels"));
    }
    dataset.text.min_length = options.length;
    dataset.text.max_length = options.length;
    return open_dataset(data, prepared.preprocess, input_specs(prepared.model), dataset);
}

} // namespace lathe
