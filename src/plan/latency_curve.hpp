#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lathe/result.hpp"
#include "plan/served.hpp"
#include "plan/simulate.hpp"
#include "support/json.hpp"

namespace lathe {

/// What `lathe bench` measured of one subject at one batch size.
struct CurvePoint {
    std::int64_t batch = 1;
    BatchTime time;                        ///< of one call, alone on the machine
    std::optional<double> preprocess_ms{}; ///< of the whole batch
    bool noisy = false;
    /// Time of a call while `LatencyCurve::streams` of them run at once, over that of one alone.
    std::optional<double> slowdown{};
    /// Calls a second with so many at once, on one device: of the bench's short trials where it tells them, else one
    /// after another by the latency and the measured throughput. Empty where no throughput was measured.
    std::map<std::size_t, double> rates{};
};

/// Latency by batch size, the base of capacity.
struct LatencyCurve {
    std::string subject;
    std::string file; ///< the engine
    std::string precision;
    std::string device;             ///< "cpu", "cuda", a card's name by trtexec; empty where the bench does not say
    std::vector<CurvePoint> points; ///< by batch size, at least one
    std::size_t streams = 1;        ///< most requests at once whose throughput was measured
    std::optional<ServedTimes> served{}; ///< what serving makes of the times, if a load was served

    std::int64_t max_batch() const { return points.back().batch; }

    /// Times of batches of 1 to `max_batch`, between measured sizes by interpolation, quantile by quantile; below the
    /// smallest, its time. With `instances` = `streams`, each runs as slowly as when all run: the worse case. As
    /// served, where that is known. `max_batch` is at most this->max_batch(), `instances` 1 or `streams`.
    std::vector<BatchTime> batches(std::int64_t max_batch, std::size_t instances) const;

    /// Decoding and preprocessing of one sample, if the bench had real data.
    std::optional<double> preprocess_ms() const;
};

/// From a bench document; `subject` empty: its first engine, or its first subject.
/// Errors: parse_error for no or a broken bench document (naming the field), not_found for the subject.
Result<LatencyCurve> read_latency_curve(const Json& bench, const std::string& subject, const std::string& where);

} // namespace lathe
