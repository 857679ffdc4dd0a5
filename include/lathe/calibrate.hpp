#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/data.hpp"
#include "lathe/export.hpp"
#include "lathe/model.hpp"
#include "lathe/progress.hpp"
#include "lathe/result.hpp"

namespace lathe {

/// How a tensor's range is found from the histogram of its values.
enum class Method { minmax, percentile, entropy, mse };
LATHE_API const char* to_string(Method method);
/// invalid_argument, with the names that exist, for any other text.
LATHE_API Result<Method> method_from_name(std::string_view name);

enum class FindingSeverity { information, warning, error };
LATHE_API const char* to_string(FindingSeverity severity);

/// Something about the activations or the data that a person should know.
struct CalibrationFinding {
    std::string name;   ///< "dead_activation", "constant_activation", "exploding_activation", "nonfinite_activation",
                        ///< "collapsed_range", or of the data: "wrong_value_range", "duplicates", "constant_images",
                        ///< "too_few_samples", ...
    std::string tensor; ///< empty where it is about the data
    std::string detail;
    FindingSeverity severity = FindingSeverity::warning;
};

struct CalibrationOptions {
    std::size_t samples = 300; ///< spread evenly over the data; 0: all
    /// Stop earlier, once reading as many samples again has changed the quantisation noise by at most 5 %, and that of
    /// no tensor to the double. What was read is spread evenly all the same, and does not depend on the machine.
    bool until_settled = true;
    Method method = Method::mse;
    double percentile = 99.99;  ///< of Method::percentile; in (0, 100]
    bool guard = true;          ///< mse's range for a tensor whose own clips the signal away, and a finding about it
    std::size_t batch_size = 0; ///< samples a run; does not change the result. 0: the model's own, 1 where open
    std::size_t threads = 0;    ///< does not change the result. 0: all cores
    /// Instead of the model's own, for data given as a path: a preset's name ("imagenet", or "imagenet@224x224" where
    /// the model leaves the size open), JSON text or a JSON file.
    std::string preprocess = {};
    Progress* progress = nullptr; ///< nullptr: silent
};

/// What a tensor was seen to hold, and the range that the method chose.
struct CalibratedTensor {
    std::string name;
    float min = 0; ///< of all values seen
    float max = 0;
    float low = 0; ///< values outside low..high are clipped, judged for 0..255
    float high = 0;
    double clipped_fraction = 0; ///< of the values
    double sqnr_db = 0;          ///< signal to quantisation noise; infinite where there is no noise
    bool fallback = false;       ///< the range is mse's, since the method's threw the signal away
};

/// A look at the ranges while samples were read.
struct CalibrationRound {
    std::size_t samples = 0;  ///< read until then
    std::size_t fresh = 0;    ///< of them, the round's own
    double noise_change = 0;  ///< of the fresh ones' quantisation noise, by their having been read; 0.02: 2 %
    double worst_change = 0;  ///< the same of the tensor where it was most
    std::string worst_tensor; ///< empty where none changed
};

/// How the ranges came to rest.
struct CalibrationConvergence {
    std::size_t available = 0; ///< samples that could have been read
    bool settled = false;      ///< false: all were read, and the ranges still moved
    std::vector<CalibrationRound> rounds;
};

/// The ranges of every tensor of one model that quantisation may need. Holds histograms: quantising by another method
/// needs no second run of the model.
class LATHE_API Calibration {
public:
    Calibration(Calibration&&) noexcept;
    Calibration& operator=(Calibration&&) noexcept;
    ~Calibration();

    /// Run the model, best a simplified one, on the data. Memory does not grow with the number of samples.
    /// Errors: invalid_argument (nothing to calibrate, bad options), out_of_range (NaN in the weights, fewer samples
    /// than a fixed batch), what the data gives (not_found, parse_error, mismatch), cancelled.
    static Result<Calibration> run(const Model& model, Data data, const CalibrationOptions& options = {});

    /// Read what `save` or `lathe calibrate` wrote. Errors: not_found, io, parse_error, unsupported, corrupt.
    static Result<Calibration> load(const std::filesystem::path& path);
    /// Write a ranges file, whole or not at all.
    Result<void> save(const std::filesystem::path& path) const;

    Method method() const;
    std::size_t samples() const; ///< that were seen
    /// With CalibrationOptions::until_settled; nullptr without.
    const CalibrationConvergence* convergence() const;
    std::vector<CalibratedTensor> tensors() const;
    const std::vector<CalibrationFinding>& findings() const;

    /// For Lathe itself.
    struct Impl;
    explicit Calibration(std::unique_ptr<Impl> impl);
    const Impl& impl() const { return *impl_; }

private:
    std::unique_ptr<Impl> impl_;
};

} // namespace lathe
