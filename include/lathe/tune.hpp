#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/engine_types.hpp"
#include "lathe/evaluate.hpp"
#include "lathe/export.hpp"
#include "lathe/progress.hpp"
#include "lathe/result.hpp"

namespace lathe {

/// An engine that was built with a precision for every layer, and what was measured of it.
struct TuneTrial {
    std::string name;  ///< "FP32", "INT8, 3 layers FP32"
    std::string phase; ///< why it was tried: "float", "int8", "prefix", "base", "tighten", "polish"
    std::string base;  ///< precision of all that is not INT8: "fp32", "bf16", "fp16"
    std::vector<std::string> float_layers = {}; ///< not in INT8; empty where nothing is in INT8
    std::string failed = {};                    ///< why it cannot be built here; then there are no figures
    double latency_ms = 0;
    Measured speedup = {}; ///< over the FP32 engine
    bool noisy = false;    ///< its time did not settle within 1 %
    /// Where its engine was timed again, for longer: the speed-up of the first time.
    std::optional<double> first_speedup = {};
    double drop = 0;            ///< lost against FP32
    std::string drop_unit = {}; ///< "pt" (percentage points), "nats", "%"
    double loss = 0;            ///< by what mixes are ranked
    std::string loss_name = {}; ///< "KL" (nats), "noise/signal", "answers changed"
    bool feasible = false;      ///< keeps the limits
    bool pareto = false;        ///< no other trial is both faster and more accurate
    bool chosen = false;
    double seconds = 0; ///< what the trial took
};

/// What `lathe tune` does: search a precision for every layer, by accuracy on real data and latency of built engines.
struct TuneRequest {
    std::filesystem::path model; ///< ONNX in floating point
    std::filesystem::path data;  ///< to search on, and (every second sample) to judge on, best labelled; as Data::path
    /// Engine file: the best so far at every moment. FILE.journal beside it keeps what is known, so that the same call
    /// goes on after an interruption.
    std::filesystem::path output;
    std::filesystem::path calibrate = {}; ///< to calibrate on; empty: the samples that are searched on
    std::filesystem::path ranges = {};    ///< of `lathe calibrate`, instead of calibrating
    std::string columns = {};             ///< of text files, as Data::columns
    std::string preprocess = {};          ///< instead of the model's own: see CalibrationOptions
    std::string method = "mse";           ///< of the ranges: minmax, percentile, entropy, mse
    std::size_t calibrate_samples = 300;  ///< 0: all
    std::size_t samples = 1000;           ///< of `data`, spread evenly; 0: all. Every second is kept from the search
    std::size_t length = 128;             ///< tokens a sample, of texts
    std::size_t threads = 0;              ///< 0: all cores
    std::filesystem::path judge = {};     ///< other data to judge the winner on; `data` is then all searched on
    /// What `max_drop` limits: top1 and agreement (points), kl (nats), sqnr (noise in % of the signal), task (points of
    /// the task's metric). Empty: the task's where one is named or told by data or outputs, else top1.
    std::string metric = {};
    TaskOptions task = {};       ///< what the model is for, and how its answers and their truth are read
    double max_drop = 0.3;       ///< largest loss against FP32
    double min_speedup = 0;      ///< over FP32; 0: any
    double budget_s = 600;       ///< for all trials together; those that every search needs are made in any case
    double slack = 0.03;         ///< share of the best speed that may be given for more accuracy within `max_drop`
    std::string device = "cpu";  ///< to build for and to measure on
    std::int64_t batch_size = 1; ///< that latency is measured at
    double time_limit_s = 1.5;   ///< that an engine is timed in a trial; the best is timed again, for longer
    std::map<std::string, ShapeRange> shapes = {}; ///< as BuildOptions::shapes; none: batches 1..8..32
    std::filesystem::path sensitivity = {};        ///< JSON of `lathe sensitivity`, instead of measuring it
    std::size_t sensitivity_samples = 64;          ///< to measure it on
    /// How much to correct what INT8 costs before the search, as QuantizeRequest::effort. Absent: 2, or 0 where there
    /// are too few samples.
    std::optional<int> effort = {};
    std::filesystem::path timing_cache = {};   ///< GPU: as BuildOptions::timing_cache
    TuneEffort kernels = TuneEffort::standard; ///< GPU: how long kernels may be timed
    std::filesystem::path results = {};        ///< JSON to write, for write_report; empty: none
    std::filesystem::path report = {};         ///< HTML page to write; empty: none
    bool force = false;                        ///< begin anew, whatever FILE.journal holds
    std::string command_line = {};             ///< for the record
    Progress* progress = nullptr;              ///< nullptr: silent
    /// Called after every trial; `best`: of all so far. Its `pareto` and `chosen` are not known yet.
    std::function<void(const TuneTrial& trial, bool best)> tried = {};
    /// Called with lines for a person: what it is judged by, what corrections gained, what an earlier run left.
    std::function<void(std::string_view)> tell = {};
};

/// A layer that can be quantised, in the engine that is handed out.
struct TunedLayer {
    std::string node;
    std::string precision;         ///< "int8", "fp32", ...
    double damage = 0;             ///< what it alone loses in INT8, TuneResult::loss_name
    std::optional<double> gain_ms; ///< that INT8 saves; absent: not measured
};

/// An engine timed in turns with the one that is handed out.
struct TimedBeside {
    std::string name;
    Measured latency_ms;
    Measured speedup; ///< of the one handed out over this one
    bool noisy = false;
};

struct TuneResult {
    bool good = false; ///< no limit was missed beyond doubt, and no plainer engine that keeps it is faster
    std::string text;  ///< one line
    std::vector<std::string> reasons;
    std::filesystem::path engine;
    std::string chosen;    ///< name of the trial that it is
    std::string metric;    ///< that the limit is of: "top1", "agreement", "kl", "sqnr", "task"
    std::string drop_unit; ///< as TuneTrial::drop_unit
    std::string loss_name; ///< as TuneTrial::loss_name
    Measured drop;         ///< of the engine in the file, on data that the search did not see, in `drop_unit`
    std::size_t search_samples = 0;
    std::size_t judged_samples = 0;
    double seconds = 0; ///< of all trials and the sensitivity, those of earlier calls included
    std::vector<TuneTrial> trials;
    std::vector<std::size_t> front; ///< indices of the trials that no other one beats in both, the fastest first
    std::vector<TunedLayer> layers;
    std::vector<TimedBeside> timed;   ///< the engine in the file itself, FP32, the device's other precisions, INT8
    std::vector<std::string> notices; ///< what preparing the model met
    std::string document;             ///< everything, as JSON text: what `lathe tune --results` writes
};

/// The engine is in the file also where TuneResult::good is false, which is no error.
/// Errors: not_found, invalid_argument (a metric, device, task or method of another name, top1 without labels, too few
/// samples, an output that is an input), unsupported (a task that cannot judge layers), mismatch (a journal or a
/// sensitivity of another model or other options), what simplifying, calibrating, correcting, building and the data
/// give, io, cancelled (the same call goes on from there).
LATHE_API Result<TuneResult> tune(const TuneRequest& request);

} // namespace lathe
