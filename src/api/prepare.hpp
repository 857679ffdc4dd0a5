#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "calibrate/ranges_file.hpp"
#include "data/dataset.hpp"
#include "data/preprocess.hpp"
#include "graph/graph.hpp"
#include "support/progress.hpp"

namespace lathe {

/// What `lathe sensitivity` and `lathe tune` need of a model before they begin.
struct PrepareOptions {
    std::string model;
    std::string data;       ///< to judge on
    std::string calibrate;  ///< to calibrate on; empty: `data`
    std::string ranges;     ///< ready ranges instead
    std::string columns;    ///< of text files
    std::string preprocess; ///< JSON file instead of the model's own
    std::string method = to_string(Method::mse);
    std::size_t calibrate_samples = 300;
    std::size_t samples = 0;  ///< of `data`; 0: all
    std::size_t length = 128; ///< of texts
    std::size_t threads = 0;
};

/// Of a SensitivityRequest or a TuneRequest, which call these alike.
template <class Request>
PrepareOptions prepare_options(const Request& request) {
    PrepareOptions options;
    options.model = request.model.string();
    options.data = request.data.string();
    options.calibrate = request.calibrate.string();
    options.ranges = request.ranges.string();
    options.columns = request.columns;
    options.preprocess = request.preprocess;
    options.method = request.method;
    options.calibrate_samples = request.calibrate_samples;
    options.samples = request.samples;
    options.length = request.length;
    options.threads = request.threads;
    return options;
}

struct PreparedModel;
/// Samples to calibrate on where neither --calibrate nor --ranges names any, one array an input.
using OwnSamples = std::function<Result<std::vector<HostTensor>>(const PreparedModel&)>;

struct PreparedModel {
    Model model; ///< simplified, with its preprocessing in the metadata
    std::optional<Preprocess> preprocess;
    RangesFile ranges;
    std::string source_hash;          ///< of the model file
    std::string key;                  ///< digest of the simplified model, the calibration and this program's version
    std::vector<std::string> notices; ///< warnings of simplifying
};

/// Loads, simplifies and calibrates. Errors: as the commands of these names; not_found for files that are not there,
/// told before any work. `own_samples`: empty takes those of --data.
Result<PreparedModel> prepare_model(const PrepareOptions& options, Progress& progress,
                                    const OwnSamples& own_samples = {});

/// Samples for the prepared model, with class labels where the data have them.
Result<std::unique_ptr<Dataset>> open_labelled(const std::filesystem::path& data, const PreparedModel& prepared,
                                               const PrepareOptions& options);

} // namespace lathe
