#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "calibrate/ranges_file.hpp"
#include "data/preprocess_presets.hpp"
#include "graph/graph.hpp"
#include "lathe/calibrate.hpp"
#include "support/progress.hpp"

namespace lathe {

struct CalibrateRequest {
    std::filesystem::path data;
    std::string columns;         ///< of a text file; see parse_text_columns
    PreprocessChoice preprocess; ///< by default the model's metadata, if it has any
    std::size_t samples = 300;   ///< 0 takes all
    bool until_settled = false;  ///< at most so many; stop when the ranges stand still (SettleRule)
    std::size_t batch_size = 0;  ///< 0: the model's own, 1 where that is free
    std::size_t threads = 0;     ///< 0: all cores
    double time_limit_s = 0;     ///< of reading samples, which then ends early (`cut`); 0: none
    Method method = Method::mse;
    EstimateOptions options;
    /// Every float32 activation (quantize/given.hpp), as calibration caches hold them and casting to 16 bits needs
    /// them, not only what Lathe's quantiser may ask for.
    bool all_activations = false;
    std::filesystem::path output; ///< the ranges file, read as a cache first; empty: kept in memory only
    bool force = false;           ///< calibrate whatever is in `output`
};

struct CalibrateOutcome {
    RangesFile ranges;              ///< with the findings about data and activations
    bool reused = false;            ///< no model was run
    bool cut = false;               ///< the time limit ended it; the ranges are those of so many samples as were read
    std::string reuse;              ///< what was reused, for people
    double seconds = 0.0;           ///< of collecting and estimating; 0 where reused
    double inference_seconds = 0.0; ///< of it, running the model
};

/// Calibrate a loaded (best: simplified) model: reuse `output` if it is valid for this model, data, preprocessing and
/// number of samples, refuse it with the reason if not, else calibrate and write it.
Result<CalibrateOutcome> calibrate_model(const Model& model, const CalibrateRequest& request, Progress& progress);

/// The same on arrays in memory instead of `request.data`; they are fed to the model as they are.
Result<CalibrateOutcome> calibrate_arrays(const Model& model, std::vector<HostTensor> arrays,
                                          const CalibrateRequest& request, Progress& progress);

/// What a caller of the library asks for.
CalibrateRequest request_of(const CalibrationOptions& options, const Data& data);

/// Calibration as a caller of the library holds it.
struct Calibration::Impl {
    RangesFile ranges;
};

} // namespace lathe
